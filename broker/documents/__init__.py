"""Documents on their way in: rows from stage 1, admission, time, and what is kept aside."""
