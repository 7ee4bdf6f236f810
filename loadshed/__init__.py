"""How much to drop and what: monitors, ALoMa, shedders, the ledger. Pure."""
