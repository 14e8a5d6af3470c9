"""The pipeline of the service: a thread (`driver`) that runs both stages, in this process (`local`)
or through Spark (`spark`)."""
