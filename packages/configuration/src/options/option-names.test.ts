import { expect, it } from 'vitest';
import { plainRuns, type Resolved, resolvedOf, valuesOf } from '../../test/support/runs-of-all-flags.js';
import { optionName, renamedOptions } from '../flags/option-names.js';
import { type FlagName, flagNames } from '../schema/flag-schema.js';
import { flagsOfTopic, optionOf, optionTopics } from './run-options.js';

/** Flags whose value the configuration does not have under the name of the option, with the reason. */
const elsewhere: Readonly<Partial<Record<FlagName, string>>> = {
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
};

/** Returns the values of a configuration by their paths. */
function valuesByPath(part: unknown, path: readonly string[] = []): ReadonlyMap<string, string> {
  if (typeof part !== 'object' || part === null || Array.isArray(part))
    return new Map([[path.join('.'), String(part)]]);
  return new Map(Object.entries(part).flatMap(([key, value]) => [...valuesByPath(value, [...path, key])]));
}

/** Returns the names that the option of a value at this path may have: its key, or object and key. */
function namesOf(path: string): readonly string[] {
  const [object = '', key = ''] = path.split('.').slice(-2);
  return [key, `${object}${key[0]!.toUpperCase()}${key.slice(1)}`];
}

const before = plainRuns.map(({ resolved }) => valuesByPath(resolved));

/** Returns whether a run with a value of the flag has that value under the name of the flag's option. */
function isUnderItsName(flag: FlagName): boolean {
  const name = optionName(flag);
  return valuesOf(flag).some((value) =>
    plainRuns.some(({ flags, worldSize }, run) => {
      const changed = resolvedOf({ ...flags, values: { ...flags.values, [flag]: value } }, worldSize);
      const after =
        changed === undefined ? new Map<string, string>() : valuesByPath(changed satisfies Resolved);
      return [...after].some(
        ([path, now]) =>
          now === String(value) && before[run]!.get(path) !== now && namesOf(path).includes(name),
      );
    }),
  );
}

it('is the key of the value in the configuration, or has a reason not to be', { timeout: 60_000 }, () => {
  const options = flagNames.filter((name) => optionOf(name) !== undefined);
  expect(options.filter((name) => !isUnderItsName(name))).toEqual(
    options.filter((name) => Object.hasOwn(elsewhere, name)),
  );
});

it('was renamed from the name of a flag, to a name that no other option has or had', () => {
  const names = optionTopics.flatMap((topic) => [...flagsOfTopic.get(topic)!.keys()]);
  for (const [former, name] of Object.entries(renamedOptions)) {
    expect(names.filter((each) => each === name)).toEqual([name]);
    expect(names).not.toContain(former);
  }
});
