"""DILoS §IV–V: why scheduler and load manager should know of each other, on S_c and on S_steps.

S_c is the preset `dilos-sc`: three classes of priorities 6, 3, 1 with the same eleven queries and equal constant rates,
which together about fill the processor. S_steps is `dilos-steps`: class 1 changes its rate, classes 2 and 3 have more than
fits into their shares. Both run under the simulator's cost model o + n·p. "About" is within a factor of two: the machine is
another one, and only its ratios are the paper's.

Claims that a table makes of each class are judged as one. Averages are over five runs (the quick form: one), as in the paper.
An experiment is a module.
"""

from sim.papers.dilos import constant, headroom, redistribution, steps, trains

# In the order in which they are told.
EXPERIMENTS = tuple(module.EXPERIMENT for module in (constant, trains, steps, redistribution, headroom))
