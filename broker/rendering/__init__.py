"""What matches refer to, and the texts that are derived of it when somebody reads them."""
