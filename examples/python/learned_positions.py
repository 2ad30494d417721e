"""A module of PyTorch with a learned table of distances (T5's), trained to look three tokens back."""

import torch

import rapt.torch

torch.manual_seed(0)
attention = rapt.torch.MultiHeadAttention(32, 4, score="t5", causal="top_left")
head = torch.nn.Linear(32, 8)
embedding = torch.nn.Embedding(8, 32)
parameters = [*attention.parameters(), *head.parameters(), *embedding.parameters()]
optimizer = torch.optim.Adam(parameters, 3e-3)
for step in range(150):
    tokens = torch.randint(8, (16, 24))
    logits = head(attention(embedding(tokens)))
    loss = torch.nn.functional.cross_entropy(logits[:, 3:].flatten(0, 1), tokens[:, :-3].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 0:
        first = loss.item()
print(f"loss {first:.2f} at first, {loss.item():.2f} now")
assert loss.item() < 0.5 * first
