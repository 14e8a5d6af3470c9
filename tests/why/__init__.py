"""Why a query has matched or not: counts against the oracle, cures, words, commands."""
