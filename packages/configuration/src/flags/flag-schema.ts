import { z } from 'zod';
import { schemasOfArchitecture } from '../architecture/fields-of.js';
import { bertFlags } from './bert-flags.js';
import { checkpointFlags } from './checkpoint-flags.js';
import { conversationFlags } from './conversation-flags.js';
import { dataFlags } from './data-flags.js';
import { dryRunFlags } from './dry-run-flags.js';
import { type FlagFacts, flagFacts } from './flag-kinds.js';
import { loggingFlags } from './logging-flags.js';
import { loraFlags } from './lora-flags.js';
import { optimizerFlags } from './optimizer-flags.js';
import { parallelFlags } from './parallel-flags.js';
import { recomputeFlags } from './recompute-flags.js';
import { spikeFlags } from './spike-flags.js';
import { trackingFlags } from './tracking-flags.js';
import { trainingFlags } from './training-flags.js';

/** The architecture: GPT-2 with Megatron-LM's names. */
const modelFlags = schemasOfArchitecture('others');
const expertFlags = schemasOfArchitecture('experts');

/**
 * The groups of flags, in the order of help and of the printed configuration, and the topics that they are of
 * in `RunOptions`.
 */
export const flagGroups = [
  { title: 'Model', topic: 'model', flags: modelFlags },
  { title: 'Experts', topic: 'model', flags: expertFlags },
  { title: 'BERT', topic: 'model', flags: bertFlags },
  { title: 'Training', topic: 'training', flags: trainingFlags },
  { title: 'Optimizer', topic: 'optimizer', flags: optimizerFlags },
  { title: 'Loss spikes', topic: 'spikes', flags: spikeFlags },
  { title: 'LoRA', topic: 'lora', flags: loraFlags },
  { title: 'Data', topic: 'data', flags: dataFlags },
  { title: 'Conversations', topic: 'data', flags: conversationFlags },
  { title: 'Device and parallelism', topic: 'layout', flags: parallelFlags },
  { title: 'Checkpoints', topic: 'checkpoint', flags: checkpointFlags },
  { title: 'Logging', topic: 'logging', flags: loggingFlags },
  { title: 'Dry run', topic: undefined, flags: dryRunFlags },
] as const;

/**
 * The one schema: command line, YAML and JSON files, presets, help and range checks all follow from it.
 * Checks that involve several flags are in `validateConfiguration`.
 */
export const flagSchema = z
  .strictObject({
    ...modelFlags,
    ...expertFlags,
    ...bertFlags,
    ...trainingFlags,
    ...optimizerFlags,
    ...spikeFlags,
    ...loraFlags,
    ...dataFlags,
    ...conversationFlags,
    ...parallelFlags,
    ...checkpointFlags,
    ...loggingFlags,
    ...dryRunFlags,
  })
  .partial();

/** Values by Megatron-LM's names; a flag that was not given is absent. */
export type Flags = z.infer<typeof flagSchema>;
export type FlagName = keyof Flags;

/** Those that choose where a model runs and how it is sharded over processes. */
export type ParallelFlags = Pick<Flags, keyof typeof parallelFlags>;
export const parallelFlagNames = Object.keys(parallelFlags) as readonly (keyof ParallelFlags)[];

/** Those that choose which activations are recomputed. */
export type RecomputeFlags = Pick<Flags, keyof typeof recomputeFlags>;
export const recomputeFlagNames = Object.keys(recomputeFlags) as readonly (keyof RecomputeFlags)[];

/** Those that name services that metrics are sent to. */
export type TrackingFlags = Pick<Flags, keyof typeof trackingFlags>;
export const trackingFlagNames = Object.keys(trackingFlags) as readonly (keyof TrackingFlags)[];

const schemas: Readonly<Record<string, z.ZodType>> = Object.assign(
  {},
  ...flagGroups.map((group) => group.flags),
);

export const flagNames: readonly FlagName[] = Object.keys(schemas) as FlagName[];

export function isFlagName(name: string): name is FlagName {
  return Object.hasOwn(schemas, name);
}

/** The schema of one flag's value. */
export function schemaOf(name: FlagName): z.ZodType {
  return schemas[name]!;
}

/** Help, kind and default of a flag. */
export function factsOf(name: FlagName): FlagFacts {
  return flagFacts.get(schemaOf(name))!;
}

/** The defaults of all flags that have one of their own. */
export const defaultFlags: Flags = Object.freeze(
  Object.fromEntries(
    flagNames
      .filter((name) => factsOf(name).default !== undefined)
      .map((name) => [name, factsOf(name).default]),
  ),
);

/** The schema of the file format, for editors that check and complete YAML and JSON by a JSON Schema. */
export function configFileJsonSchema(): object {
  const describe = z.registry<{ description: string }>();
  for (const name of flagNames) describe.add(schemaOf(name), { description: factsOf(name).description });
  return z.toJSONSchema(flagSchema, { metadata: describe });
}
