"""The settings of the service: what there is (`schema`) and where a value comes from
(`sources`)."""
