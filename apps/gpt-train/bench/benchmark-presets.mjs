/**
 * Models that are timed: layers, hidden, heads, sequence, vocabulary, usual micro-batch. Those named gpt2 and
 * char are the shapes of the PyTorch yardstick.
 */
export const benchmarkPresets = {
  'char-10m': [6, 384, 6, 256, 128, 16],
  // a long sequence on a narrow model: attention is two thirds of the FLOPs
  'long-8k': [6, 384, 6, 8192, 128, 1],
  'gpt2-124m': [12, 768, 12, 1024, 50304, 2],
  'gpt2-355m': [24, 1024, 16, 1024, 50304, 1],
  'gpt2-774m': [36, 1280, 20, 1024, 50304, 8],
  'gpt2-1.3b': [24, 2048, 16, 2048, 50304, 4],
  'gpt2-2.7b': [32, 2560, 20, 2048, 50304, 4],
  // Shoeybi 2019, table 1: one GPU each, the second here without its model parallelism
  'megatron-1.2b': [40, 1536, 16, 1024, 51200, 8],
  'megatron-4.2b': [64, 2304, 24, 1024, 51200, 4],
  // small enough for every part of `bench:cuda` to be tried where there is no GPU
  'cuda-dry-run': [2, 64, 2, 32, 128, 2],
  // weak-scaling.mjs: for so many ranks, about as many times the parameters in the layers
  'weak-1': [12, 768, 8, 1024, 50304, 2],
  'weak-2': [16, 960, 10, 1024, 50304, 2],
  'weak-4': [19, 1152, 12, 1024, 50304, 2],
  'weak-8': [22, 1536, 16, 1024, 50304, 2],
  'weak-tiny-1': [3, 192, 2, 128, 1024, 2],
  'weak-tiny-2': [4, 240, 2, 128, 1024, 2],
  'weak-tiny-4': [5, 288, 4, 128, 1024, 2],
  'weak-tiny-8': [6, 384, 8, 128, 1024, 2],
};
