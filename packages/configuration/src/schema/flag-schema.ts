import * as z from 'zod';
import { adapterFlagGroup, adapterPlaceFlags } from '../adapters/adapter-flags.js';
import { architectureFlagNames, schemasOfArchitecture } from '../architecture/list-fields.js';
import { checkpointFlags as ownCheckpointFlags } from '../flags/checkpoint-flags.js';
import { conversationFlags, dataFlags } from '../flags/data-flags.js';
import {
  choice,
  count,
  type FlagFacts,
  flagFacts,
  fraction,
  positiveNumber,
  toggle,
} from '../flags/flag-kinds.js';
import type { AllOf } from '../flags/flag-values.js';
import { loggingFlags, trackingFlags } from '../flags/logging-flags.js';
import { optimizerFlags } from '../flags/optimizer-flags.js';
import { dryRunFlags, recomputeFlags, spikeFlags, trainingFlags } from '../flags/training-flags.js';
import { aliasesOfStrategies, strategyFlags, strategyFlagsOfTasks } from '../strategies/strategies.js';

/** The flags that only a BERT has, for its architecture and its samples. */
export const bertFlags = {
  ...schemasOfArchitecture('bert'),
  'mask-prob': fraction('Share of the tokens to mask and predict.', { default: 0.15 }),
  'short-seq-prob': fraction('Share of the samples that aim at a length below --seq-length.', {
    default: 0.1,
  }),
};

/** The flags of the device. */
export const deviceFlags = {
  device: choice(['cpu', 'cuda'], 'Where tensors live.', { default: 'cpu' }),
  'allow-tf32': toggle(
    'With --device cuda: matmuls of float32 in TF32, faster and with 10 bits of mantissa.',
  ),
  'cuda-graphs': toggle(
    'With --device cuda: records the passes over a micro-batch once, then launches them as a whole. Not with tensor parallelism.',
  ),
  'time-matmuls': toggle(
    'Times the algorithms of every matmul before the first step and uses the fastest: several of cuBLASLt, or on CPUs our kernels and oneDNN. Choices are kept in the cache directory of the user for later runs with this flag, and in checkpoints for resumed runs.',
  ),
  'distributed-backend': choice(['nccl', 'gloo', 'local'], 'What processes communicate over.', {
    defaultText:
      'local on one host, gloo between hosts; with --device cuda nccl where every process has a GPU of its own',
  }),
  threads: count('CPU threads per process.', {
    defaultText:
      'what the checkpoint was trained with; else by the size of the model and the cores that are free',
  }),
};

/** The flags for communication. The help lists them after the flags for sharding. */
export const communicationFlags = {
  'distributed-timeout-minutes': positiveNumber(
    'Minutes that a process waits for others before it gives up.',
    { default: 10 },
  ),
};

/** The flags for the device, for sharding over processes, and for communication. */
export const parallelFlags = { ...deviceFlags, ...strategyFlags, ...communicationFlags };

/** `parallelFlags` for models with task heads. */
export const parallelFlagsOfTasks = { ...deviceFlags, ...strategyFlagsOfTasks, ...communicationFlags };

/** The flags for initial weights, checkpoints and exports. */
export const checkpointFlags = { ...ownCheckpointFlags, ...adapterPlaceFlags };

/** The flags for the architecture, with Megatron-LM's names and defaults. */
const modelFlags = schemasOfArchitecture('others');
const expertFlags = schemasOfArchitecture('experts');

/**
 * The groups of flags, in the order of help and of the printed configuration. Each has its topic in
 * `RunOptions`. `decidesLearning` is true if all flags of the group affect training.
 */
export const flagGroups = [
  { title: 'Model', topic: 'model', flags: modelFlags },
  { title: 'Experts', topic: 'model', flags: expertFlags },
  { title: 'BERT', topic: 'model', flags: bertFlags },
  { title: 'Training', topic: 'training', flags: trainingFlags },
  { title: 'Optimizer', topic: 'optimizer', decidesLearning: true, flags: optimizerFlags },
  { title: 'Loss spikes', topic: 'spikes', decidesLearning: true, flags: spikeFlags },
  adapterFlagGroup,
  { title: 'Data', topic: 'data', flags: dataFlags },
  { title: 'Conversations', topic: 'data', flags: conversationFlags },
  { title: 'Device and parallelism', topic: 'layout', flags: parallelFlags },
  { title: 'Checkpoints', topic: 'checkpoint', flags: checkpointFlags },
  { title: 'Logging', topic: 'logging', flags: loggingFlags },
  { title: 'Dry run', topic: undefined, flags: dryRunFlags },
] as const;

/** The schemas of all flags, by name. */
export const flagSchemas = Object.assign({}, ...flagGroups.map(({ flags }) => flags)) as AllOf<
  (typeof flagGroups)[number]['flags']
>;

/**
 * The schema of all flags, for command lines, YAML and JSON files, presets, help and range checks. Checks
 * that involve several flags are in `validateConfiguration`.
 */
export const flagSchema = z.strictObject(flagSchemas).partial();

/** The values of flags, under Megatron-LM's names; a flag without a value is absent. */
export type Flags = z.infer<typeof flagSchema>;
export type FlagName = keyof Flags;

/** The flags for the device, for sharding and for communication. */
export type ParallelFlags = Pick<Flags, keyof typeof parallelFlags>;
export const parallelFlagNames = Object.keys(parallelFlags) as readonly (keyof ParallelFlags)[];

/** The flags that select the activations to recompute. */
export type RecomputeFlags = Pick<Flags, keyof typeof recomputeFlags>;
export const recomputeFlagNames = Object.keys(recomputeFlags) as readonly (keyof RecomputeFlags)[];

/** The flags of tracking services. */
export type TrackingFlags = Pick<Flags, keyof typeof trackingFlags>;
export const trackingFlagNames = Object.keys(trackingFlags) as readonly (keyof TrackingFlags)[];

export const flagNames: readonly FlagName[] = Object.keys(flagSchemas) as FlagName[];

export function isFlagName(name: string): name is FlagName {
  return Object.hasOwn(flagSchemas, name);
}

/** Returns the schema of a flag's value. */
export function findSchema(name: FlagName): z.ZodType {
  return flagSchemas[name];
}

/** Returns the help, the type and the default of a flag. */
export function findFlagFacts(name: FlagName): FlagFacts {
  return flagFacts.get(findSchema(name))!;
}

/** The defaults of all flags that have a default. */
export const defaultFlags: Flags = Object.freeze(
  Object.fromEntries(
    flagNames
      .filter((name) => findFlagFacts(name).default !== undefined)
      .map((name) => [name, findFlagFacts(name).default]),
  ),
);

/**
 * Returns the schema of the file format of --config as a JSON Schema, with which editors check and complete
 * YAML and JSON.
 */
export function configFileJsonSchema(): object {
  const describe = z.registry<{ description: string }>();
  for (const name of flagNames)
    describe.add(findSchema(name), { description: findFlagFacts(name).description });
  return z.toJSONSchema(flagSchema, { metadata: describe });
}

/** The flag that an alias in Megatron-LM stands for. */
export interface FlagAlias {
  readonly flag: FlagName;
  /** The flag's value that the alias implies; undefined if the alias takes a value itself. */
  readonly value?: string;
}

/** Aliases: flags of Megatron-LM that have the same meaning as a flag of the schema. */
export const flagAliases: Readonly<Record<string, FlagAlias>> = {
  'recompute-activations': { flag: 'recompute-granularity', value: 'selective' },
  'use-rotary-position-embeddings': { flag: 'position-embedding-type', value: 'rope' },
  'openai-gelu': { flag: 'gelu', value: 'tanh' },
  'layernorm-epsilon': { flag: 'norm-epsilon' },
  'override-lr-scheduler': { flag: 'override-opt-param-scheduler' },
  'use-checkpoint-lr-scheduler': { flag: 'use-checkpoint-opt-param-scheduler' },
  'muon-use-nesterov': { flag: 'muon-nesterov' },
  ...aliasesOfStrategies,
};

export function findFlagAlias(name: string): FlagAlias | undefined {
  return Object.hasOwn(flagAliases, name) ? flagAliases[name] : undefined;
}

/** Writes flags as on a command line: `--num-layers 2 no --window-size`. */
export const writeFlags = (flags: Flags, names: readonly FlagName[]): string =>
  names.map((name) => (flags[name] === undefined ? `no --${name}` : `--${name} ${flags[name]}`)).join(' ');

/** The flags that describe a tokenizer. */
export const tokenizerFlagNames = [
  'tokenizer-type',
  'tokenizer-model',
  'vocab-file',
  'merge-file',
  'vocab-size',
] as const satisfies readonly FlagName[];

/**
 * Flags with which the user describes a model or names data. If such a flag is given, the default preset does
 * not apply. All other flags (for batches, precision, parallelism, schedule, length and logging) modify the
 * default preset.
 */
export const flagsOfOwnModels: ReadonlySet<FlagName> = new Set<FlagName>([
  ...architectureFlagNames(({ decides }) => decides === 'weights'),
  ...(['seq-length', 'data-path', 'mock-data', 'train-data', 'load', 'load-hf'] as const),
  ...tokenizerFlagNames,
]);
