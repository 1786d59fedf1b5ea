"""A short training script in plain MLX. `cold` measures its second run as a whole process."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

mx.random.seed(0)
centers = mx.random.normal((4, 8))
labels = mx.random.randint(0, 4, (128,))
points = centers[labels] + 0.5 * mx.random.normal((128, 8))


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.norm = nn.LayerNorm(32)
        self.down = nn.Linear(32, 4)

    def __call__(self, x: mx.array) -> mx.array:
        return self.down(nn.relu(self.norm(self.up(x))))


def loss_fn(model: Classifier, x: mx.array, y: mx.array) -> mx.array:
    return nn.losses.cross_entropy(model(x), y, reduction="mean")


model = Classifier()
optimizer = optim.AdamW(learning_rate=1e-2)
value_and_grad = nn.value_and_grad(model, loss_fn)
for step in range(20):
    loss, grads = value_and_grad(model, points, labels)
    optimizer.update(model, grads)
    mx.eval(model.parameters(), optimizer.state)
    if step % 5 == 4:
        print(step + 1, round(loss.item(), 4))
accuracy = (mx.argmax(model(points), axis=1) == labels).astype(mx.float32).mean()
print(round(accuracy.item(), 4))
