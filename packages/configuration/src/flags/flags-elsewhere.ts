/**
 * Flags whose values are in a nested object of a run's configuration, with the path of this object. For
 * example, the value of `muon-momentum` is `optimizer.muon.momentum`.
 */
export const flagsOfObjects = {
  'recompute-granularity': 'training.recompute',
  'recompute-method': 'training.recompute',
  'recompute-modules': 'training.recompute',
  'recompute-num-layers': 'training.recompute',
  'muon-momentum': 'optimizer.muon',
  'muon-nesterov': 'optimizer.muon',
  'muon-scale-mode': 'optimizer.muon',
  'muon-extra-scale-factor': 'optimizer.muon',
  'muon-coefficient-type': 'optimizer.muon',
  'muon-num-ns-steps': 'optimizer.muon',
  lr: 'optimizer.learningRate',
  'min-lr': 'optimizer.learningRate',
  'lr-decay-style': 'optimizer.learningRate',
  'lr-warmup-init': 'optimizer.learningRate',
  'lr-wsd-decay-style': 'optimizer.learningRate',
  'loss-scale-window': 'optimizer.lossScale',
  hysteresis: 'optimizer.lossScale',
  'seq-length': 'model',
  'tokenizer-type': 'data.tokenizer',
  'tokenizer-model': 'data.tokenizer',
  'vocab-file': 'data.tokenizer',
  'merge-file': 'data.tokenizer',
  'vocab-size': 'data.tokenizer',
  'chat-template': 'data.tokenizer',
  'train-data': 'data.conversations',
  'validation-data': 'data.conversations',
  'validation-fraction': 'data.conversations',
  'wandb-project': 'logging.wandb',
  'wandb-exp-name': 'logging.wandb',
  'wandb-entity': 'logging.wandb',
  'mlflow-tracking-uri': 'logging.mlflow',
  'mlflow-experiment-name': 'logging.mlflow',
  'mlflow-run-name': 'logging.mlflow',
  'profile-trace': 'logging.profile',
} as const;

/** Flags whose values are not in a run's configuration under the names of their options, with the reason. */
export const flagsElsewhere = {
  'disable-bias-linear': 'model.addBiasLinear is the opposite',
  'bert-no-binary-head': 'bert.sentenceOrderHead is the opposite',
  'muon-no-split-qkv': 'optimizer.muon.splitQkv is the opposite',
  'no-load-optim': 'checkpoint.loadOptimizer is the opposite',
  'no-load-rng': 'checkpoint.loadRng is the opposite',
  'no-eval-samples': 'logging.samplesAtEvaluations is the opposite',
  bf16: 'training.precision is one of three',
  fp16: 'training.precision is one of three',
  'rampup-batch-size': 'training.rampup names its three numbers',
  'profile-steps': 'logging.profile names its two numbers',
  optimizer: 'optimizer.muon is present or absent',
  'muon-fp32-matmul-prec': 'optimizer.muon.dtype is the dtype that it means',
  'muon-tp-mode': 'the update does not depend on it',
  'decoupled-lr': 'optimizer.decoupledLearningRate.maxLearningRate, by the key of the other rates',
  'decoupled-min-lr': 'optimizer.decoupledLearningRate.minLearningRate, by the key of the other rates',
  'lr-decay-iters': 'optimizer.learningRate.decaySteps is in the unit of the run',
  'lr-decay-samples': 'optimizer.learningRate.decaySteps is in the unit of the run',
  'lr-warmup-iters': 'optimizer.learningRate.warmupSteps is in the unit of the run',
  'lr-warmup-samples': 'optimizer.learningRate.warmupSteps is in the unit of the run',
  'lr-warmup-fraction': 'optimizer.learningRate.warmupSteps is in the unit of the run',
  'lr-wsd-decay-iters': 'optimizer.learningRate.wsdDecaySteps is in the unit of the run',
  'lr-wsd-decay-samples': 'optimizer.learningRate.wsdDecaySteps is in the unit of the run',
  'loss-scale': 'optimizer.lossScale has the options of a LossScaler',
  'initial-loss-scale': 'optimizer.lossScale has the options of a LossScaler',
  'min-loss-scale': 'optimizer.lossScale has the options of a LossScaler',
  'mock-data': 'data.mockData is present where it is on, which no other data is',
  epochs: 'training.trainIterations follows from it',
  'long-conversations': 'data.conversations.long, whose object names what is long',
  'early-stopping-patience': 'data.conversations.patience',
  'distributed-backend': 'is read where a process joins its job',
  'num-layers-per-virtual-pipeline-stage': 'parallel.numVirtualStages follows from it',
  'num-virtual-stages-per-pipeline-rank': 'parallel.numVirtualStages follows from it or another flag',
  'pipeline-model-parallel-layout': 'parallel.layerLayout follows from it',
  'decoder-first-pipeline-num-layers': 'parallel.layerLayout follows from it',
  'decoder-last-pipeline-num-layers': 'parallel.layerLayout follows from it',
  'override-opt-param-scheduler': 'checkpoint.schedule is one of three',
  'use-checkpoint-opt-param-scheduler': 'checkpoint.schedule is one of three',
  'use-checkpoint-args': 'asks for what --load always does',
} as const;

/** The flags whose values are not properties of their topic in a run's configuration. */
export type FlagElsewhere = keyof typeof flagsOfObjects | keyof typeof flagsElsewhere;

/** Returns whether a flag's value is not a property of its topic in a run's configuration. */
export const isElsewhere = (flag: string): boolean =>
  Object.hasOwn(flagsOfObjects, flag) || Object.hasOwn(flagsElsewhere, flag);
