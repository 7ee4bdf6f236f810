"""Load shedding: monitors, ALoMa's decisions, shedders, and the ledger of tuples. The package reads neither clock nor environment."""
