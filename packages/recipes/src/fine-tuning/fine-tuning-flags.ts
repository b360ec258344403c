import type { FineTuningConfiguration } from './fine-tuning-configuration.js';

/** The flags of `mtl finetune` of a configuration, for the record of the run of a seed. */
export function fineTuningFlags(
  configuration: FineTuningConfiguration,
  seed: number,
): Readonly<Record<string, unknown>> {
  const { task, data, start, spans, optimizer, checkpoint, precision } = configuration;
  const { scratch, tokenizer } = start;
  const all = {
    task,
    'train-data': data.train,
    'valid-data': data.valid,
    'test-data': data.test,
    load: start.load,
    'ckpt-step': start.checkpointStep,
    'load-hf': start.loadHuggingFace,
    'from-scratch': start.initialWeights,
    'num-layers': scratch?.numLayers,
    'hidden-size': scratch?.hiddenSize,
    'num-attention-heads': scratch?.numAttentionHeads,
    'layer-norm-placement': scratch?.layerNormPlacement,
    'tokenizer-type': tokenizer?.type,
    epochs: configuration.epochs,
    'global-batch-size': configuration.globalBatchSize,
    'micro-batch-size': configuration.microBatchSize,
    lr: optimizer.learningRate,
    'min-lr': optimizer.minLearningRate,
    'lr-decay-style': optimizer.decayStyle,
    'lr-warmup-fraction': optimizer.warmupFraction,
    'weight-decay': optimizer.weightDecay,
    'clip-grad': optimizer.clipGrad,
    dropout: configuration.dropout,
    'seq-length': configuration.sequenceLength,
    'doc-stride': spans.documentStride,
    'max-query-length': spans.maximumQueryLength,
    'max-answer-length': spans.maximumAnswerLength,
    seeds: seed,
    bf16: precision === 'bf16',
    fp16: precision === 'fp16',
    save: checkpoint.save,
    'save-hf': checkpoint.saveHuggingFace,
    'save-interval': checkpoint.saveInterval,
    'keep-last': checkpoint.keepLast,
    resume: checkpoint.resume,
    'log-interval': configuration.logInterval,
    'metrics-jsonl': configuration.metricsJsonl,
    'exit-interval': configuration.exitInterval,
    ...configuration.recompute,
    ...configuration.parallel,
    ...configuration.tracking,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}
