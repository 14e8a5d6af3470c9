"""Laws that hold for every stream and every query: the engine against the oracle."""
