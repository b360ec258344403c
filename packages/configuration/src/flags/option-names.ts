/** The name of a flag in camel case: `numLayers` for `num-layers`. */
export type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

/** Returns the name of a flag in camel case: `numLayers` for `num-layers`. */
export const camelCase = (name: string): string =>
  name.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());

/**
 * Options whose names differ from the camel-case names of their flags. Each key is the deprecated option
 * name, which is the flag's name in camel case. The value is the new name, which is also the key of the
 * option's value in `PretrainingConfiguration` and in run.json. If the option's value is in a nested object,
 * the object's name comes first: `muonNumSteps` for `muon.numSteps`.
 */
export const renamedOptions = {
  /** @deprecated */ normEpsilon: 'layerNormEpsilon',
  /** @deprecated */ gelu: 'geluKind',
  /** @deprecated */ kvChannels: 'headSize',
  /** @deprecated */ maskProb: 'maskProbability',
  /** @deprecated */ shortSeqProb: 'shortSequenceProbability',
  /** @deprecated */ trainIters: 'trainIterations',
  /** @deprecated */ evalIters: 'evalIterations',
  /** @deprecated */ exitDurationInMins: 'exitDurationMinutes',
  /** @deprecated */ muonNumNsSteps: 'muonNumSteps',
  /** @deprecated */ lr: 'maxLearningRate',
  /** @deprecated */ minLr: 'minLearningRate',
  /** @deprecated */ decoupledLr: 'decoupledMaxLearningRate',
  /** @deprecated */ decoupledMinLr: 'decoupledMinLearningRate',
  /** @deprecated */ lrDecayStyle: 'learningRateDecayStyle',
  /** @deprecated */ lrDecayIters: 'learningRateDecayIterations',
  /** @deprecated */ lrDecaySamples: 'learningRateDecaySamples',
  /** @deprecated */ lrWarmupIters: 'learningRateWarmupIterations',
  /** @deprecated */ lrWarmupSamples: 'learningRateWarmupSamples',
  /** @deprecated */ lrWarmupFraction: 'learningRateWarmupFraction',
  /** @deprecated */ lrWarmupInit: 'initialLearningRate',
  /** @deprecated */ lrWsdDecayStyle: 'learningRateWsdDecayStyle',
  /** @deprecated */ lrWsdDecayIters: 'learningRateWsdDecayIterations',
  /** @deprecated */ lrWsdDecaySamples: 'learningRateWsdDecaySamples',
  /** @deprecated */ adamEps: 'adamEpsilon',
  /** @deprecated */ lossScaleWindow: 'lossScaleGrowthInterval',
  /** @deprecated */ lossSpikePolicy: 'policy',
  /** @deprecated */ lossSpikeWindow: 'window',
  /** @deprecated */ lossSpikeFactor: 'factor',
  /** @deprecated */ lossSpikeLimit: 'limit',
  /** @deprecated */ gradNormSkipThreshold: 'gradientNormSkipThreshold',
  /** @deprecated */ loraRank: 'rank',
  /** @deprecated */ loraAlpha: 'alpha',
  /** @deprecated */ loraDropout: 'dropout',
  /** @deprecated */ loraTargets: 'targets',
  /** @deprecated */ seqLength: 'sequenceLength',
  /** @deprecated */ timeMatmuls: 'timesMatmuls',
  /** @deprecated */ microbatchGroupSizePerVirtualPipelineStage: 'microBatchGroupSize',
  /** @deprecated */ ckptStep: 'checkpointStep',
  /** @deprecated */ moeUseUpcycling: 'upcycle',
  /** @deprecated */ loadHf: 'loadHuggingFace',
  /** @deprecated */ saveHf: 'saveHuggingFace',
  /** @deprecated */ verbose: 'isVerbose',
  /** @deprecated */ compareWithPlan: 'comparesWithPlan',
  /** @deprecated */ tensorboardDir: 'tensorboardDirectory',
  /** @deprecated */ profileTrace: 'profileFile',
  /** @deprecated */ wandbExpName: 'wandbName',
  /** @deprecated */ mlflowExperimentName: 'mlflowExperiment',
  /** @deprecated */ mlflowRunName: 'mlflowName',
} as const;

type Renamed = typeof renamedOptions;

/**
 * The name of a flag's option in its topic. The name is also the key of the value in a run's configuration.
 */
export type OptionName<Name extends string> =
  CamelCase<Name> extends keyof Renamed ? Renamed[CamelCase<Name>] : CamelCase<Name>;

/** Returns true if a name is the deprecated name of an option. */
export const isFormerName = (name: string): name is keyof Renamed => Object.hasOwn(renamedOptions, name);

/** Returns the option name of a flag, given the flag's name with dashes or in camel case. */
export function optionName(flag: string): string {
  const name = camelCase(flag);
  return isFormerName(name) ? renamedOptions[name] : name;
}
