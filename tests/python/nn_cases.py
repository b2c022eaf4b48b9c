# SPDX-License-Identifier: Apache-2.0
"""NN tests: the layers that are compared with PaddlePaddle, one (expression, inputs, mode) per case.

``record_nn.py`` runs the list with the real Paddle and writes ``data/nn_reference.pkl.xz``;
``test_nn_parity.py`` runs it here and compares state names, printing, outputs, gradients and running
statistics. Expressions see ``nn`` and ``paddle``; inputs are NumPy arrays that both sides make from the same
seed.
"""
import numpy as np


def cases():
    """List of (expression, inputs or None, training)."""
    rng = np.random.RandomState(0)

    def normal(*shape):
        return rng.randn(*shape).astype("float32")

    x2, x3, x4, x5 = normal(3, 4), normal(2, 4, 7), normal(2, 4, 6, 6), normal(2, 4, 4, 5, 5)
    found = []

    def add(expression, *inputs, train=True):
        found.append((expression, list(inputs) if inputs else None, train))

    def both(expression, *inputs):
        add(expression, *inputs)
        add(expression, *inputs, train=False)

    for text in ("nn.Linear(4,5)", "nn.Linear(4,5,bias_attr=False)", "nn.Dropout(.3)", "nn.AlphaDropout()"):
        add(text, x2, train="Dropout" not in text)
    add("nn.Bilinear(4,4,6)", x2, normal(3, 4))
    for text in ("4,6,3", "4,6,3,padding=1,stride=2", "4,6,(3,2),padding=[1,2],groups=2",
                 '4,6,3,padding="same"',
                 '4,6,3,padding="SAME",stride=2', '4,6,3,padding="VALID"', "4,6,3,padding=[1,0,2,1]",
                 "4,6,3,padding=[[0,0],[0,0],[1,2],[0,1]]", "4,6,3,dilation=2,bias_attr=False",
                 "4,6,3,bias=False",
                 '4,6,3,padding=1,padding_mode="reflect"', '4,6,3,padding=1,padding_mode="circular"',
                 '6,6,3,data_format="NHWC"'):
        add(f"nn.Conv2D({text})", x4)
    for text in ("4,6,3", "4,6,3,stride=2,padding=1,output_padding=1", "4,6,3,groups=2,dilation=2"):
        add(f"nn.Conv2DTranspose({text})", x4)
    add("nn.Conv2DTranspose(4,6,3,stride=2)", x4, [14, 14])
    for text in ("Conv1D(4,6,3)", "Conv1D(4,6,3,padding=2,stride=2)", 'Conv1D(4,6,3,padding="same")',
                 "Conv1DTranspose(4,6,3,stride=2)"):
        add("nn." + text, x3)
    for text in ("Conv3D(4,6,3)", "Conv3D(4,6,3,padding=1)", "Conv3DTranspose(4,6,3)"):
        add("nn." + text, x5)
    for text in ("BatchNorm2D(4)", "BatchNorm(4)", 'BatchNorm(4,act="relu")',
                 "BatchNorm2D(4,use_global_stats=True)",
                 "GroupNorm(2,4)", "InstanceNorm2D(4)", "InstanceNorm2D(4,weight_attr=False,bias_attr=False)",
                 "LayerNorm(6)", "LayerNorm([6,6])", "LayerNorm([4,6,6],weight_attr=False)",
                 "LocalResponseNorm(3)",
                 "LocalResponseNorm(2,alpha=.1,beta=.5,k=2.)", 'BatchNorm2D(6,data_format="NHWC")'):
        both("nn." + text, x4)
    add("nn.BatchNorm1D(4)", x2)
    add("nn.BatchNorm1D(4)", x3)
    add("nn.BatchNorm3D(4)", x5)
    add("nn.InstanceNorm1D(4)", x3)
    add("nn.InstanceNorm3D(4)", x5)
    for text in ("MaxPool2D(2)", "MaxPool2D(3,2,1)", "MaxPool2D(3,2,1,ceil_mode=True)",
                 'MaxPool2D(3,2,padding="same")', "MaxPool2D(2,return_mask=True)", "AvgPool2D(2)",
                 "AvgPool2D(3,2,1)",
                 "AvgPool2D(3,2,1,exclusive=False)", "AvgPool2D(3,2,1,ceil_mode=True)",
                 "AdaptiveAvgPool2D(1)",
                 "AdaptiveAvgPool2D([3,None])", "AdaptiveAvgPool2D(4)", "AdaptiveMaxPool2D(3)",
                 "AdaptiveMaxPool2D(4)",
                 "AdaptiveMaxPool2D(3,return_mask=True)", "LPPool2D(2,2)", 'MaxPool2D(2,data_format="NHWC")',
                 "Upsample(scale_factor=2)", "Upsample(size=[4,9])", 'Upsample(size=[9,4],mode="bilinear")',
                 'Upsample(scale_factor=1.5,mode="bilinear",align_mode=1)',
                 'Upsample(scale_factor=2,mode="bicubic")',
                 'Upsample(size=[8,3],mode="bicubic",align_corners=True)', 'Upsample(size=[3,4],mode="area")',
                 "UpsamplingBilinear2D(scale_factor=2)", "Pad2D(1)", "ZeroPad2D([1,2,0,1])",
                 "ReflectionPad2D(1)",
                 "ReplicationPad2D(2)", "CircularPad2D(1)", "ConstantPad2D(1,2.)", "PixelShuffle(2)",
                 "PixelUnshuffle(2)", "ChannelShuffle(2)", "Flatten()", "Identity()", "Unfold(3)",
                 "Unfold(2,strides=2,paddings=1,dilations=2)", "Softmax2D()", "Maxout(2)", "PReLU(4)",
                 "PReLU()"):
        add("nn." + text, x4)
    add("nn.Dropout2D()", x4, train=False)
    for text in ("MaxPool1D(2)", "MaxPool1D(3,2,1,ceil_mode=True)", "AvgPool1D(3,2,1)",
                 "AdaptiveAvgPool1D(3)",
                 "AdaptiveMaxPool1D(3)", "Pad1D([1,2])", "ZeroPad1D(1)", "ReflectionPad1D(2)",
                 'Upsample(size=[12],mode="linear",data_format="NCW")'):
        add("nn." + text, x3)
    for text in ("MaxPool3D(2)", "AvgPool3D(2)", "AdaptiveAvgPool3D(2)", "AdaptiveMaxPool3D(2)", "Pad3D(1)",
                 "ZeroPad3D(1)"):
        add("nn." + text, x5)
    for text in ("CELU()", "CELU(.5)", "ELU()", "GELU()", "GELU(True)", "GLU()", "Hardshrink()",
                 "Hardsigmoid()",
                 "Hardswish()", "Hardtanh()", "LeakyReLU()", "LogSigmoid()", "LogSoftmax()", "Mish()",
                 "ReLU()",
                 "ReLU6()", "SELU()", "Sigmoid()", "Silu()", "Softmax()", "Softmax(0)", "Softplus()",
                 "Softshrink()", "Softsign()", "Swish()", "Tanh()", "Tanhshrink()", "ThresholdedReLU()"):
        add("nn." + text, x2 * 3)
    _losses(add, x2, normal)
    ids = np.array([[1, 4], [0, 2]])
    for text in ("5,3", "5,3,padding_idx=2", "5,3,padding_idx=-1"):
        add(f"nn.Embedding({text})", ids)
    _recurrent(add, normal(2, 5, 3), normal)
    _transformers(add, both, normal)
    for text in ("Sequential(nn.Linear(4,3),nn.ReLU(),nn.Linear(3,2))",
                 'Sequential(("a",nn.Linear(4,3)),("b",nn.ReLU()))', "Unflatten(1,[2,2])"):
        add("nn." + text, x2)
    for text in ("LayerList([nn.Linear(2,2),nn.ReLU()])", 'LayerDict({"x":nn.ReLU()})',
                 'ParameterList([paddle.create_parameter([2],"float32")])', "HSigmoidLoss(4,6)",
                 "LSTM(3,4,proj_size=2)"):
        add("nn." + text)
    add("nn.Fold(4,2)", normal(2, 8, 9))
    return found


def _losses(add, x, normal):
    p = 1 / (1 + np.exp(-x))
    label = np.array([1, 0, 3], "int64")
    binary = (normal(3, 4) > 0).astype("float32")
    sign = np.sign(normal(3, 4)).astype("float32")
    pairs = np.array([[0, 1, -1, 2], [3, -1, -1, -1], [0, 1, 2, 3]], "int64")
    for text, *inputs in (
            ("CrossEntropyLoss()", x, label),
            ('CrossEntropyLoss(reduction="sum",label_smoothing=.1)', x, label),
            ("CrossEntropyLoss(soft_label=True)", x, p / p.sum(1, keepdims=True)), ("MSELoss()", x, p),
            ("L1Loss()", x, p), ("SmoothL1Loss()", x, p), ("SmoothL1Loss(delta=.3,is_huber=False)", x, p),
            ("NLLLoss()", x, label), ("BCELoss()", p, binary), ("BCEWithLogitsLoss()", x, binary),
            ("KLDivLoss()", x, p), ('KLDivLoss("batchmean")', x, p), ('KLDivLoss("batchmean",True)', x, p),
            ("MarginRankingLoss(.1)", x, p, sign), ("HingeEmbeddingLoss()", x, sign),
            ("CosineEmbeddingLoss(.1)", x, p, np.array([1, -1, 1], "int64")),
            ("TripletMarginLoss()", x, p, binary),
            ("TripletMarginLoss(swap=True,p=1)", x, p, binary),
            ("TripletMarginWithDistanceLoss()", x, p, binary),
            ("SoftMarginLoss()", x, sign), ("MultiLabelSoftMarginLoss()", x, binary),
            ("MultiMarginLoss(p=2)", x, label), ("MultiLabelMarginLoss()", x, pairs),
            ("PoissonNLLLoss(full=True)", x, p * 5), ("PoissonNLLLoss(log_input=False)", p, p * 5),
            ("GaussianNLLLoss(full=True)", x, p, p), ("CosineSimilarity()", x, p),
            ("PairwiseDistance()", x, p),
            ("PairwiseDistance(p=1.,keepdim=True)", x, p)):
        add("nn." + text, *inputs)


def _recurrent(add, x, normal):
    batch_lengths, time_lengths = np.array([3, 5]), np.array([1, 2, 2, 1, 2])
    for kind in ("SimpleRNN", "LSTM", "GRU"):
        for rest in ("", ",num_layers=2", ',direction="bidirect"',
                     ',num_layers=2,direction="bidirectional",time_major=True'):
            add(f"nn.{kind}(3,4{rest})", x)
            add(f"nn.{kind}(3,4{rest})", x, None, time_lengths if "time" in rest else batch_lengths)
        add(f"nn.{kind}Cell(3,4)", normal(2, 3))
        add(f"nn.RNN(nn.{kind}Cell(3,4))", x)
        add(f"nn.RNN(nn.{kind}Cell(3,4),is_reverse=True)", x, None, batch_lengths)
        add(f"nn.BiRNN(nn.{kind}Cell(3,4),nn.{kind}Cell(3,4))", x, None, batch_lengths)
    add('nn.SimpleRNN(3,4,activation="relu")', x)


def _transformers(add, both, normal):
    q, memory = normal(2, 5, 8), normal(2, 3, 8)
    add("nn.MultiHeadAttention(8,2)", q)
    add("nn.MultiHeadAttention(8,2,need_weights=True)", q, q, q, normal(2, 2, 5, 5))
    add("nn.MultiHeadAttention(8,2,kdim=4,vdim=6)", q, normal(2, 3, 4), normal(2, 3, 6))
    add("nn.MultiHeadAttention(8,2)", q, q, q, normal(2, 2, 5, 5) > 0)
    add("nn.TransformerEncoderLayer(8,2,16,dropout=0.)", q)
    add('nn.TransformerEncoderLayer(8,2,16,normalize_before=True,activation="gelu")', q, train=False)
    add("nn.TransformerEncoder(nn.TransformerEncoderLayer(8,2,16,dropout=0.),2)", q)
    add("nn.TransformerDecoder(nn.TransformerDecoderLayer(8,2,16,dropout=0.),2)", q, memory)
    add("nn.Transformer(8,2,1,1,16)", q, memory, train=False)


def functional_cases():
    """List of (expression over F and a, b, c, ..., inputs) for functions that no layer above reaches."""
    rng = np.random.RandomState(1)

    def normal(*shape):
        return rng.randn(*shape).astype("float32")

    def ints(values, dtype="int64"):
        return np.array(values, dtype)

    found = [("F.affine_grid(a,[2,3,4,5])", [normal(2, 2, 3)]),
             ("F.affine_grid(a,[2,3,4,5],align_corners=False)", [normal(2, 2, 3)])]
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (True, False):
                found.append((f"F.grid_sample(a,b,mode='{mode}',padding_mode='{padding}',"
                              f"align_corners={corners})", [normal(2, 3, 4, 5), normal(2, 3, 3, 2)]))
    labels = ints([[1, 2, 2], [3, 1, 0]], "int32")
    for rest, lengths, counts in (("", [6, 5], [3, 2]), (",reduction='sum'", [6, 4], [3, 2]),
                                  (",blank=4,reduction='none'", [6, 4], [3, 1])):
        found.append((f"F.ctc_loss(a,b,c,d{rest})", [normal(6, 2, 5), labels, ints(lengths), ints(counts)]))
    found += [
        ("F.hsigmoid_loss(a,b,6,c,d)", [normal(4, 3), ints([0, 5, 2, 3]), normal(5, 3), normal(5, 1)]),
        ("F.hsigmoid_loss(a,b,5,c)", [normal(4, 3), ints([0, 4, 2, 3]), normal(4, 3)]),
        ("F.adaptive_log_softmax_with_loss(a,b,c,[[d,e],[f,g]],[5,10,20])",
         [normal(4, 16), ints([0, 7, 12, 19]), normal(16, 7), normal(16, 4), normal(4, 5), normal(16, 1),
          normal(1, 10)]),
        ("F.gather_tree(a,b)", [ints([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]]),
                                ints([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]])])]
    for rest in ("3,random_u=.3", "[4,5],random_u=.77,return_mask=True", "[2,4],kernel_size=2,random_u=.5"):
        found.append((f"F.fractional_max_pool2d(a,{rest})", [normal(1, 2, 7, 9)]))
    found.append(("F.fractional_max_pool3d(a,[2,3,4],random_u=.4)", [normal(1, 1, 5, 6, 7)]))
    for rest in ("", ",reduction='sum'", ",reduction='none',fastemit_lambda=0."):
        found.append((f"F.rnnt_loss(a,b,c,d{rest})",
                      [normal(2, 5, 4, 6), ints([[1, 2, 3], [4, 1, 0]], "int32"), ints([5, 4], "int32"),
                       ints([3, 2], "int32")]))
    q, k, v = normal(2, 5, 4, 8), normal(2, 6, 4, 8), normal(2, 6, 4, 8)
    mask = rng.rand(2, 4, 5, 6) > 0.4
    mask[..., 0] = True
    attention = "F.scaled_dot_product_attention"
    found += [(f"{attention}(a,b,c)", [q, k, v]), (f"{attention}(a,b,c,d)", [q, k, v, normal(2, 1, 5, 6)]),
              (f"{attention}(a,b,c,d)", [q, k, v, mask]), (f"{attention}(a,b,c,scale=.1)", [q, k, v]),
              (f"{attention}(a,b,c,is_causal=True)", [q, normal(2, 5, 4, 8), normal(2, 5, 4, 8)])]
    x3, x4 = normal(1, 2, 3), normal(2, 3, 4, 5)
    for rest in ("[1,2]", "[1,2],data_format='NLC'", "[0,0,1,1,0,1]",
                 "[0,0,1,1,0,1],pad_from_left_axis=False",
                 "[1,1],mode='reflect'", "[1,2],mode='circular'", "[1,3],mode='replicate'", "[1,1,1,0]",
                 "[-1,0]"):
        found.append((f"F.pad(a,{rest})", [x3]))
    found += [("F.pad(a,[1,0,2,0],value=3.)", [x4]), ("F.zeropad2d(a,[1,0,2,1])", [x4]),
              ("F.interpolate(a,size=[7,3])", [x4]), ("F.interpolate(a,size=[2,9],mode='bilinear')", [x4]),
              ("F.interpolate(a,scale_factor=[2,1.5],mode='bilinear',align_corners=True)", [x4]),
              ("F.interpolate(a,size=[9,9],mode='bicubic')", [x4]),
              ("F.interpolate(a,size=[2,3,4],mode='trilinear')", [normal(1, 2, 3, 4, 5)]),
              ("F.normalize(a)", [x4]), ("F.normalize(a,p=3,axis=-1)", [x4]), ("F.swiglu(a)", [normal(3, 4)]),
              ("F.swiglu(a,b)", [normal(3, 4), normal(3, 4)]),
              ("F.label_smooth(a)", [np.eye(3, dtype="float32")]),
              ("F.temporal_shift(a,2)", [normal(4, 8, 2, 2)]),
              ("F.square_error_cost(a,b)", [normal(3), normal(3)]),
              ("F.log_loss(a,b)", [rng.rand(3, 1).astype("float32"), ints([[1], [0], [1]], "float32")]),
              ("F.dice_loss(a,b)", [rng.rand(2, 3, 2).astype("float32"), ints(rng.randint(0, 2, (2, 3, 1)))]),
              ("F.sigmoid_focal_loss(a,b.detach(),reduction='mean')",
               [normal(3, 4), ints(rng.randint(0, 2, (3, 4)), "float32")]),
              ("F.npair_loss(a,b,c)", [normal(4, 3), normal(4, 3), ints([0, 1, 0, 2], "float32")]),
              ("F.softmax_with_cross_entropy(a,b)", [normal(3, 4), ints([[1], [0], [3]])]),
              ("F.cross_entropy(a,b,weight=c)",
               [normal(3, 4), ints([1, 0, 3]), rng.rand(4).astype("float32")]),
              ("F.cross_entropy(a,b,axis=1)", [normal(2, 4, 3), ints(rng.randint(0, 4, (2, 3)))]),
              ("F.nll_loss(a,b,weight=c)", [normal(2, 4, 3), ints(rng.randint(0, 4, (2, 3))),
                                           rng.rand(4).astype("float32")]),
              ("F.binary_cross_entropy_with_logits(a,b,pos_weight=c)",
               [normal(3, 4), ints(rng.randint(0, 2, (3, 4)), "float32"), rng.rand(4).astype("float32")]),
              ("F.one_hot(a,4)", [ints([1, 0, 3])]), ("F.sequence_mask(a,maxlen=4)", [ints([1, 3, 0])]),
              ("F.max_unpool2d(*F.max_pool2d(a,2,return_mask=True),2)", [normal(2, 3, 4, 6)]),
              ("F.layer_norm(a,[5],b,c)", [x4, normal(5), normal(5)]),
              ("F.softmax(a,axis=1,dtype='float64')", [x4]),
              ("F.embedding(a,b,padding_idx=1)", [ints([[0, 1], [2, 1]]), normal(3, 2)])]
    return found
