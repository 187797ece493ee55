"""Small random models that PyTorch users export: torchvision, timm, transformers and plain torch.

ZOO maps a name to a function that returns (module, inputs, loss). The module takes the inputs by
name and returns the tensor that the loss reads. Loss: "cross_entropy" (classes last),
"cross_entropy:1" (classes on axis 1), "mse".
"""

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 4


def image(size=32, channels=3):
    return {"x": torch.randn(BATCH, channels, size, size)}


def tokens(vocabulary, length, name="input_ids"):
    """Without the first ones: PyTorch gives the row of a padding token no gradient."""
    return {name: torch.randint(4, vocabulary, (BATCH, length))}


class Pick(nn.Module):
    """The output `field` of a model of transformers, with inputs by name."""

    def __init__(self, model, field="logits", names=("input_ids",), **fixed):
        super().__init__()
        self.model, self.field, self.names, self.fixed = model, field, names, fixed

    def forward(self, *values):
        out = self.model(**dict(zip(self.names, values)), **self.fixed)
        return getattr(out, self.field)


class Scores(nn.Module):
    """Mean of the last hidden states, then classes."""

    def __init__(self, model, width, classes, names=("input_ids",)):
        super().__init__()
        self.model, self.names = model, names
        self.head = nn.Linear(width, classes)

    def forward(self, *values):
        hidden = self.model(**dict(zip(self.names, values))).last_hidden_state
        return self.head(hidden.mean(1))


# ---- torchvision and timm ----

def vision(name, size=64, **how):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=10, **how), image(size), "cross_entropy"
    return make


def timm_model(name, size=64, **how):
    def make():
        import timm
        return timm.create_model(name, num_classes=10, **how), image(size), "cross_entropy"
    return make


def deeplab():
    import torchvision

    class Out(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
                weights=None, weights_backbone=None, num_classes=5)

        def forward(self, x):
            return self.model(x)["out"]
    return Out(), image(64), "cross_entropy:1"


def fcn():
    import torchvision

    class Out(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = torchvision.models.segmentation.fcn_resnet50(
                weights=None, weights_backbone=None, num_classes=4)

        def forward(self, x):
            return self.model(x)["out"]
    return Out(), image(32), "cross_entropy:1"


def vit_torchvision():
    import torchvision
    model = torchvision.models.VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=10)
    return model, image(32), "cross_entropy"


def swin_torchvision():
    import torchvision
    model = torchvision.models.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4],
                                               stochastic_depth_prob=0.0, num_classes=10)
    return model, image(32), "cross_entropy"


# ---- transformers ----

def causal(config_name, vocabulary=96, length=24, **how):
    def make():
        import transformers
        config = getattr(transformers, config_name)(vocab_size=vocabulary, use_cache=False, **how)
        model = transformers.AutoModelForCausalLM.from_config(config)
        return Pick(model), tokens(vocabulary, length), "cross_entropy"
    return make


def masked(config_name, vocabulary=96, length=20, mask=True, **how):
    def make():
        import transformers
        config = getattr(transformers, config_name)(vocab_size=vocabulary, **how)
        model = transformers.AutoModelForMaskedLM.from_config(config)
        inputs = tokens(vocabulary, length)
        if mask:
            inputs["attention_mask"] = (torch.rand(BATCH, length) < 0.8).long()
            inputs["attention_mask"][:, 0] = 1
        return Pick(model, names=tuple(inputs)), inputs, "cross_entropy"
    return make


def t5():
    import transformers
    config = transformers.T5Config(vocab_size=96, d_model=48, d_kv=12, d_ff=64, num_layers=2,
                                   num_heads=4, relative_attention_num_buckets=8,
                                   relative_attention_max_distance=20, use_cache=False,
                                   decoder_start_token_id=0)
    inputs = {**tokens(96, 14), **tokens(96, 11, "decoder_input_ids")}
    return Pick(transformers.T5ForConditionalGeneration(config), names=tuple(inputs)), inputs, \
        "cross_entropy"


def bart():
    import transformers
    config = transformers.BartConfig(vocab_size=96, d_model=48, encoder_layers=2, decoder_layers=2,
                                     encoder_attention_heads=4, decoder_attention_heads=4,
                                     encoder_ffn_dim=64, decoder_ffn_dim=64, use_cache=False,
                                     max_position_embeddings=64)
    inputs = {**tokens(96, 14), **tokens(96, 11, "decoder_input_ids")}
    return Pick(transformers.BartForConditionalGeneration(config), names=tuple(inputs)), inputs, \
        "cross_entropy"


def whisper():
    import transformers
    config = transformers.WhisperConfig(
        vocab_size=96, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16,
        max_source_positions=20, max_target_positions=24, use_cache=False, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    inputs = {"input_features": torch.randn(BATCH, 16, 40), **tokens(96, 9, "decoder_input_ids")}
    return Pick(transformers.WhisperForConditionalGeneration(config), names=tuple(inputs)), inputs, \
        "cross_entropy"


def clip():
    import transformers
    config = transformers.CLIPConfig(
        text_config=dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, max_position_embeddings=16, projection_dim=24,
                         eos_token_id=95, bos_token_id=0, pad_token_id=1),
        vision_config=dict(hidden_size=36, intermediate_size=48, num_hidden_layers=2,
                           num_attention_heads=4, image_size=32, patch_size=8, projection_dim=24),
        projection_dim=24)
    inputs = {"input_ids": torch.randint(2, 95, (BATCH, 12)),
              "pixel_values": torch.randn(BATCH, 3, 32, 32)}
    inputs["input_ids"][:, 9] = 95

    class Pairs(nn.Module):
        """Similarity of each text with its image: no products between samples."""

        def __init__(self):
            super().__init__()
            self.model = transformers.CLIPModel(config)

        def forward(self, input_ids, pixel_values):
            out = self.model(input_ids=input_ids, pixel_values=pixel_values)
            return out.text_embeds * out.image_embeds
    return Pairs(), inputs, "mse"


def vit_transformers():
    import transformers
    config = transformers.ViTConfig(hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                                    intermediate_size=96, image_size=32, patch_size=8, num_labels=10)
    return Pick(transformers.ViTForImageClassification(config), names=("pixel_values",)), \
        {"pixel_values": torch.randn(BATCH, 3, 32, 32)}, "cross_entropy"


def segformer():
    import transformers
    config = transformers.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2],
                                          hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
                                          num_attention_heads=[1, 2], mlp_ratios=[2, 2],
                                          decoder_hidden_size=24, num_labels=5)
    return Pick(transformers.SegformerForSemanticSegmentation(config), names=("pixel_values",)), \
        {"pixel_values": torch.randn(BATCH, 3, 64, 64)}, "cross_entropy:1"


def wav2vec2():
    import transformers
    config = transformers.Wav2Vec2Config(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_prob=0.0)
    return Pick(transformers.Wav2Vec2ForCTC(config), names=("input_values",)), \
        {"input_values": torch.randn(BATCH, 640)}, "cross_entropy"


# ---- plain torch ----

class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
                                 nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class UNet(nn.Module):
    def __init__(self, bilinear):
        super().__init__()
        self.down1, self.down2, self.middle = Block(3, 8), Block(8, 16), Block(16, 32)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                                 nn.Conv2d(32, 16, 1)) if bilinear \
            else nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.up1 = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join2, self.join1, self.out = Block(32, 16), Block(16, 8), nn.Conv2d(8, 4, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.middle(self.pool(b))
        d = self.join2(torch.cat([self.up2(c), b], 1))
        return self.out(self.join1(torch.cat([self.up1(d), a], 1)))


class Diffusion(nn.Module):
    """A U-Net with time embedding, group norms and attention, as diffusion models use it."""

    def __init__(self, c=16):
        super().__init__()
        self.c = c
        self.time = nn.Sequential(nn.Linear(c, 2 * c), nn.SiLU(), nn.Linear(2 * c, 2 * c))
        self.first = nn.Conv2d(3, c, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, n) for n in (c, 2 * c, 2 * c, 3 * c)])
        self.convs = nn.ModuleList([nn.Conv2d(c, 2 * c, 3, padding=1, stride=2),
                                    nn.Conv2d(2 * c, 2 * c, 3, padding=1),
                                    nn.Conv2d(3 * c, 3, 3, padding=1)])
        self.qkv, self.proj = nn.Conv2d(2 * c, 6 * c, 1), nn.Conv2d(2 * c, 2 * c, 1)

    def forward(self, x, t):
        rate = torch.exp(-torch.arange(self.c // 2, device=x.device) * (9.2 / (self.c // 2)))
        angle = t[:, None].float() * rate[None]
        time = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        a = self.first(x)
        h = self.convs[0](F.silu(self.norms[0](a))) + time[:, :, None, None]
        b, c, height, width = h.shape
        q, k, v = self.qkv(self.norms[1](h)).reshape(b, 3, 2, c // 2, height * width).unbind(1)
        weight = (torch.einsum("bhct,bhcs->bhts", q, k) * (c // 2) ** -0.5).softmax(-1)
        y = torch.einsum("bhts,bhcs->bhct", weight, v).reshape(b, c, height, width)
        h = h + self.proj(y)
        h = h + self.convs[1](F.silu(self.norms[2](h)))
        up = F.interpolate(h, scale_factor=2.0, mode="nearest")
        return self.convs[2](F.silu(self.norms[3](torch.cat([up, a], 1))))


class Detection(nn.Module):
    """A feature pyramid with a shared head: classes and boxes of all places in one tensor."""

    def __init__(self, c=16, anchors=3, classes=4):
        super().__init__()
        self.c1 = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(c, c, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(c, c, 3, stride=2, padding=1)
        self.side = nn.ModuleList([nn.Conv2d(c, c, 1) for _ in range(2)])
        self.tower = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(4, c), nn.ReLU())
        self.cls = nn.Conv2d(c, anchors * classes, 3, padding=1)
        self.box = nn.Conv2d(c, anchors * 4, 3, padding=1)
        self.classes = classes

    def level(self, x):
        x = self.tower(x)
        n = x.shape[0]
        score = self.cls(x).permute(0, 2, 3, 1).reshape(n, -1, self.classes)
        box = self.box(x).permute(0, 2, 3, 1).reshape(n, -1, 4)
        return torch.cat([score, box.sigmoid()], -1)

    def forward(self, x):
        a = F.relu(self.c2(F.relu(self.c1(x))))
        b = F.leaky_relu(self.c3(a), 0.1)
        top = self.side[1](b)
        low = self.side[0](a) + F.interpolate(top, size=a.shape[-2:], mode="nearest")
        return torch.cat([self.level(low), self.level(top)], 1)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.rnn = getattr(nn, kind)(12, 16, num_layers=2, batch_first=True,
                                     bidirectional=kind == "LSTM")
        self.head = nn.Linear(32 if kind == "LSTM" else 16, 50)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


class Encoder(nn.Module):
    """nn.TransformerEncoder, in training mode so that its fast path is not taken."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 24)
        layer = nn.TransformerEncoderLayer(24, 4, 48, dropout=0.0, batch_first=True,
                                           activation="gelu", norm_first=True)
        self.net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(24, 60)

    def forward(self, ids):
        return self.head(self.net(self.embed(ids)))


SMALL = dict(hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64)
GROUPED = dict(SMALL, num_key_value_heads=2)

ZOO = {
    "albert": masked("AlbertConfig", embedding_size=24, **SMALL),
    "bart": bart,
    "bert": masked("BertConfig", **SMALL),
    "bloom": causal("BloomConfig", hidden_size=48, n_layer=2, n_head=4),
    "clip": clip,
    "convnext": timm_model("convnext_atto", 32, depths=(1, 1, 1, 1), dims=(16, 24, 32, 40)),
    "deeplab": deeplab,
    "densenet": timm_model("densenet121", 32, growth_rate=8, block_config=(2, 2, 2, 2)),
    "detection": lambda: (Detection(), image(32), "mse"),
    "diffusion": lambda: (Diffusion(), {**image(16), "t": torch.randint(0, 1000, (BATCH,))}, "mse"),
    "distilbert": masked("DistilBertConfig", dim=48, n_layers=2, n_heads=4, hidden_dim=64,
                         max_position_embeddings=64),
    "efficientnet": timm_model("efficientnet_b0", 32),
    "encoder": lambda: (Encoder(), tokens(60, 15, "ids"), "cross_entropy"),
    "fcn": fcn,
    "gemma": causal("GemmaConfig", head_dim=12, pad_token_id=0, **GROUPED),
    "gpt2": causal("GPT2Config", n_positions=64, n_embd=48, n_layer=2, n_head=4),
    "gpt_neox": causal("GPTNeoXConfig", **SMALL),
    "gru": lambda: (Recurrent("GRU"), tokens(50, 9, "ids"), "cross_entropy"),
    "llama": causal("LlamaConfig", **GROUPED),
    "lstm": lambda: (Recurrent("LSTM"), tokens(50, 9, "ids"), "cross_entropy"),
    "mistral": causal("MistralConfig", sliding_window=10, **GROUPED),
    "mixer": timm_model("mixer_s32_224", 32, img_size=32),
    "mnasnet": vision("mnasnet0_5", 32),
    "mobilenet_v2": vision("mobilenet_v2", 32),
    "mobilenet_v3": vision("mobilenet_v3_small", 64),
    "modernbert": masked("ModernBertConfig", local_attention=8, global_attn_every_n_layers=2,
                         pad_token_id=0, cls_token_id=1, bos_token_id=1, sep_token_id=2,
                         eos_token_id=2, **SMALL),
    "opt": causal("OPTConfig", hidden_size=48, ffn_dim=64, num_hidden_layers=2,
                  num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=48),
    "phi": causal("PhiConfig", **SMALL),
    "qwen2": causal("Qwen2Config", **GROUPED),
    "qwen3": causal("Qwen3Config", head_dim=12, **GROUPED),
    "regnet": vision("regnet_y_400mf", 32),
    "resnet18": vision("resnet18", 32),
    "resnet50": timm_model("resnet50", 32, layers=(1, 1, 1, 1)),
    "roberta": masked("RobertaConfig", **SMALL),
    "segformer": segformer,
    "shufflenet": vision("shufflenet_v2_x0_5", 32),
    "squeezenet": vision("squeezenet1_1", 64),
    "swin": swin_torchvision,
    "t5": t5,
    "unet": lambda: (UNet(False), image(16), "cross_entropy:1"),
    "unet_bilinear": lambda: (UNet(True), image(16), "cross_entropy:1"),
    "vgg": vision("vgg11_bn", 64),
    "vit": vit_transformers,
    "vit_torchvision": vit_torchvision,
    "wav2vec2": wav2vec2,
    "whisper": whisper,
}

RATES = {"squeezenet": 1e-4}  # without norms it diverges faster than rounding is equal
