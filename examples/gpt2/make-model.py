"""Makes a tiny GPT-2 with random weights, a tokenizer, and the logits that transformers computes: python make-model.py FOLDER"""
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

folder = Path(sys.argv[1])
dtype = getattr(torch, sys.argv[2]) if len(sys.argv) > 2 else torch.float32
text = Path(__file__).read_text() + "Zwölf Boxkämpfer jagen Viktor, 42 mal.\n\t They're ok  \U0001f600 "

trained = ByteLevelBPETokenizer()
trained.train_from_iterator([text], vocab_size=400, min_frequency=2)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer)
tokenizer.save_pretrained(folder)

torch.manual_seed(3)
config = GPT2Config(
    vocab_size=len(tokenizer),
    n_positions=256,
    n_embd=96,
    n_layer=3,
    n_head=4,
    initializer_range=0.3,
    bos_token_id=0,
    eos_token_id=0,
)
model = GPT2LMHeadModel(config).eval()
for name, parameter in model.named_parameters():
    # Biases are zero otherwise, and their mistakes would not show.
    if name.endswith("bias"):
        torch.nn.init.normal_(parameter, std=0.3)
model.to(dtype).save_pretrained(folder)

prompt = "Zwölf  Boxer's 42 \U0001f600:\n\timport they're"
tokens = tokenizer(prompt, return_tensors="pt").input_ids
model = model.float()
mask = torch.ones_like(tokens)
with torch.no_grad():
    logits = model(tokens).logits
    written = model.generate(tokens, attention_mask=mask, max_new_tokens=20, do_sample=False, pad_token_id=0)
save_file({"tokens": tokens[0], "logits": logits[0].contiguous()}, folder / "expected.safetensors")
(folder / "prompt.txt").write_text(prompt)
(folder / "written.txt").write_text(tokenizer.decode(written[0]))
