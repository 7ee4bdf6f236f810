"""Load shedding: monitors, ALoMa's decisions, shedders, and the ledger of tuples. Pure: reads no clock or environment."""
