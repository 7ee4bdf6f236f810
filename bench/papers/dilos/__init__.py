"""Experiments of the DILoS paper (§IV–V) on the cooperation of scheduler and load manager, with the set-ups S_c and S_steps.

S_c is the preset `dilos-sc`: three classes of priorities 6, 3, 1 with the same eleven queries. Rates are equal and
constant, and need about the whole processor. S_steps is `dilos-steps`: class 1 changes its rate, and classes 2 and 3 have
more input than their shares can process. Both set-ups run under the simulator's cost model o + n·p: a call on n tuples
costs o plus p per tuple. Figures that are "about" equal differ by a factor of two at most, because the paper used another
machine.

Claims that a table makes for each class are judged as one claim. As in the paper, averages are over five runs (quick form: one
run). Each experiment has its own module.
"""

from bench.papers.dilos import constant, headroom, redistribution, steps, trains

# Experiments of the DILoS paper, in the order in which reports list them.
EXPERIMENTS = tuple(module.EXPERIMENT for module in (constant, trains, steps, redistribution, headroom))
