"""Live tuning: the thread that asks the simulator for forecasts, for classes that choose their policy themselves."""
