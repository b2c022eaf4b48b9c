# SPDX-License-Identifier: Apache-2.0
"""Optimizer tests: the optimizers that are compared with PaddlePaddle, and the small run each of them does.

``<oracle python> tests/python/optimizer_cases.py`` records the losses, accumulator names and values of the
real Paddle into ``data/optimizer_reference.json``; ``test_optimizer.py`` repeats the runs here.
"""
import json
import pathlib
import re
import warnings

import numpy as np

REFERENCE = pathlib.Path(__file__).parent / "data" / "optimizer_reference.json"
STEPS = 8

# Expressions see o (optimizer module), P (parameters), net, nn, lr, L1, L2.
CASES = [
    "o.SGD(.1,P)", "o.SGD(.1,P,weight_decay=.1)", "o.SGD(.1,P,weight_decay=L1(.05))", "o.Momentum(.1,.9,P)",
    "o.Momentum(.1,.9,P,use_nesterov=True,weight_decay=.01)", "o.Adam(.05,parameters=P)",
    "o.Adam(.05,parameters=P,weight_decay=.1)", "o.Adam(.05,parameters=P,amsgrad=True)",
    "o.AdamW(.05,parameters=P,weight_decay=.1)", "o.AdamW(.05,parameters=P,amsgrad=True)",
    "o.AdamW(.05,parameters=P,apply_decay_param_fun=lambda n: 'b_' not in n,weight_decay=.3)",
    "o.RMSProp(.05,parameters=P)",
    "o.RMSProp(.05,parameters=P,momentum=.9,centered=True)", "o.Lamb(.05,parameters=P)",
    "o.Lamb(.05,parameters=P,exclude_from_weight_decay_fn=lambda p: 'b_' in p.name)",
    "o.Lamb(.05,lamb_weight_decay=0.,parameters=P)", "o.Adagrad(.1,parameters=P)",
    "o.Adagrad(.1,parameters=P,initial_accumulator_value=.1)", "o.Adadelta(1.,parameters=P)",
    "o.Adamax(.05,parameters=P)", "o.NAdam(.05,parameters=P)", "o.RAdam(.05,parameters=P)", "o.ASGD(.05,3,P)",
    "o.ASGD(.05,1,P)", "o.Rprop(.01,parameters=P)", "o.SGD(lr.StepDecay(.1,2),P)",
    "o.Adam(lr.LinearWarmup(.1,3,0.,.1),parameters=P)", "o.SGD(.1,P,grad_clip=nn.ClipGradByGlobalNorm(.3))",
    "o.SGD(.1,P,grad_clip=nn.ClipGradByNorm(.2))", "o.SGD(.1,P,grad_clip=nn.ClipGradByValue(.05))",
    "o.Adam(.05,parameters=P,grad_clip=nn.ClipGradByGlobalNorm(.3),weight_decay=L2(.1))",
    "o.SGD(.1,[{'params':net[0].parameters()},{'params':net[2].parameters(),'learning_rate':.1,"
    "'weight_decay':.5}],weight_decay=.01)",
    "o.Adam(.1,parameters=[{'params':net[0].parameters(),'beta1':.5},{'params':net[2].parameters(),"
    "'learning_rate':.1}])",
    "o.AdamW(.1,parameters=[{'params':net[0].parameters(),'weight_decay':.5},{'params':net[2].parameters(),"
    "'learning_rate':.1}])",
]


def run(framework, expression):
    """(losses, {accumulator name without the parameter's number: values}) of STEPS steps of a small network.
    """
    fw = framework
    rng = np.random.RandomState(3)
    net = fw.nn.Sequential(fw.nn.Linear(4, 8), fw.nn.Tanh(), fw.nn.Linear(8, 3))
    for p in net.parameters():
        p.set_value(fw.to_tensor((rng.randn(*p.shape) * 0.5).astype("float32")))
    scope = {"o": fw.optimizer, "P": net.parameters(), "net": net, "nn": fw.nn, "lr": fw.optimizer.lr,
             "L1": fw.regularizer.L1Decay, "L2": fw.regularizer.L2Decay}
    optimizer = eval(expression, scope)
    losses = []
    for _ in range(STEPS):
        x, y = (fw.to_tensor(rng.randn(5, n).astype("float32")) for n in (4, 3))
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        if not isinstance(optimizer._learning_rate, float):
            optimizer._learning_rate.step()
    first = int(re.search(r"\d+", net[0].weight.name).group())
    state = {}
    for name, value in optimizer.state_dict().items():
        if hasattr(value, "numpy"):
            number = int(re.match(r"linear_(\d+)", name).group(1)) - first
            state[re.sub(r"^linear_\d+", f"linear{number}", re.sub(r"_\d+$", "", name))] = value.numpy()
    return losses, state


if __name__ == "__main__":
    import paddle
    warnings.simplefilter("ignore")
    rows = {}
    for case in CASES:
        losses, state = run(paddle, case)
        sums = {k: [list(v.shape), float(np.abs(v).sum())] for k, v in state.items()}
        rows[case] = {"losses": losses, "state": sums}
    REFERENCE.parent.mkdir(exist_ok=True)
    REFERENCE.write_text(json.dumps(rows, indent=0))
    print(len(rows), "cases,", REFERENCE.stat().st_size, "bytes")
