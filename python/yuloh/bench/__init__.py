# SPDX-License-Identifier: Apache-2.0
"""The performance test: trains the same model under several frameworks, in turn, and says which is faster.

Data path of a run: cli.bench -> contenders (what to compare) -> environments (a Python for each) -> runner
(starts one worker process per arm, interleaves their blocks) -> statistics (the judge) -> results
(results.json) -> yuloh.report. Nothing here computes with tensors: the workers do, inside workloads/*.py.
"""
