/**
 * The models to measure: number of layers, hidden size, number of heads, sequence length, vocabulary size,
 * usual micro-batch size. Models whose names begin with gpt2 or char have the same shapes as in the PyTorch
 * comparison program.
 */
export const benchmarkPresets = {
  'char-10m': [6, 384, 6, 256, 128, 16],
  // long sequences and small hidden sizes, so that attention has two thirds (8k) or a third of the FLOPs
  'long-8k': [6, 384, 6, 8192, 128, 1],
  'long-2k': [4, 512, 8, 2048, 8192, 1],
  'gpt2-124m': [12, 768, 12, 1024, 50304, 2],
  'gpt2-355m': [24, 1024, 16, 1024, 50304, 1],
  'gpt2-774m': [36, 1280, 20, 1024, 50304, 8],
  'gpt2-1.3b': [24, 2048, 16, 2048, 50304, 4],
  'gpt2-2.7b': [32, 2560, 20, 2048, 50304, 4],
  // Shoeybi 2019, table 1, with one GPU per model; the second model has no model parallelism here
  'megatron-1.2b': [40, 1536, 16, 1024, 51200, 8],
  'megatron-4.2b': [64, 2304, 24, 1024, 51200, 4],
  // Llama 3.2's smallest model (see `llamaWidths`), with the same sequence length as the models above
  'llama-1.2b': [16, 2048, 32, 2048, 128256, 4],
  'llama-dry-run': [2, 64, 4, 32, 128, 2],
  // a model that is small enough to test all of `bench:cuda` without a GPU
  'cuda-dry-run': [2, 64, 2, 32, 128, 2],
  // for weak-scaling.mjs: the number of parameters in the layers grows in proportion to the number of ranks,
  // which is in the name
  'weak-1': [12, 768, 8, 1024, 50304, 2],
  'weak-2': [16, 960, 10, 1024, 50304, 2],
  'weak-4': [19, 1152, 12, 1024, 50304, 2],
  'weak-8': [22, 1536, 16, 1024, 50304, 2],
  'weak-tiny-1': [3, 192, 2, 128, 1024, 2],
  'weak-tiny-2': [4, 240, 2, 128, 1024, 2],
  'weak-tiny-4': [5, 288, 4, 128, 1024, 2],
  'weak-tiny-8': [6, 384, 8, 128, 1024, 2],
};

/**
 * The feed-forward size of each Llama-like model, and its number of groups in which heads share keys and
 * values.
 */
export const llamaWidths = {
  'llama-1.2b': [8192, 8],
  'llama-dry-run': [192, 2],
};

/** Returns the model configuration of a preset for @mtl/models, without dropout. */
export function modelOfPreset(preset) {
  const [numLayers, hiddenSize, numAttentionHeads, maxPositionEmbeddings, vocabularySize] =
    benchmarkPresets[preset];
  const [ffnHiddenSize, numQueryGroups] = llamaWidths[preset] ?? [4 * hiddenSize];
  const llama = {
    groupQueryAttention: true,
    numQueryGroups,
    addBiasLinear: false,
    normalization: 'RMSNorm',
    swiglu: true,
    positionEmbeddingType: 'rope',
    rotaryBase: 500_000,
  };
  return {
    numLayers,
    hiddenSize,
    ffnHiddenSize,
    numAttentionHeads,
    maxPositionEmbeddings,
    vocabularySize,
    makeVocabularySizeDivisibleBy: 128,
    tieEmbeddings: true,
    layerNormEpsilon: 1e-5,
    geluKind: 'tanh',
    hiddenDropout: 0,
    attentionDropout: 0,
    initMethodStd: 0.02,
    ...(numQueryGroups === undefined ? {} : llama),
  };
}
