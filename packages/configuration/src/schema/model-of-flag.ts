import { ConfigurationError } from '@mtl/errors';
import { adapterFlagNames } from '../adapters/adapter-flags.js';
import type { ModelKind } from '../architecture/architecture-field.js';
import { listFields } from '../architecture/list-fields.js';
import { conversationFlags } from '../flags/data-flags.js';
import { strategyFlagsOfKind } from '../strategies/strategies.js';
import { bertFlags, defaultFlags, type FlagName } from './flag-schema.js';

const kindsOfFields = new Map<FlagName, ModelKind | undefined>(
  listFields().map(([name, { kind }]) => [name, kind]),
);
const gptFlags = new Set<FlagName>([
  ...(['eod-mask-loss', 'reset-position-ids', 'reset-attention-mask', 'mock-data'] as const),
  ...adapterFlagNames,
  ...(strategyFlagsOfKind('gpt') as FlagName[]),
  ...(Object.keys(conversationFlags) as FlagName[]),
]);

/** Returns the only kind of model that has a flag; undefined for flags of all kinds. */
export function modelOfFlag(name: FlagName): ModelKind | undefined {
  if (kindsOfFields.has(name)) return kindsOfFields.get(name);
  if (Object.hasOwn(bertFlags, name)) return 'bert';
  return gptFlags.has(name) ? 'gpt' : undefined;
}

export interface CheckModelOfFlagsOptions {
  /** The kind of model to train. */
  readonly model: ModelKind;
  readonly values: ReadonlyMap<FlagName, unknown>;
  /** The source of the flags: `on the command line`, `in run.yaml`. */
  readonly where: string;
  /**
   * True for a file with the values of all flags. Flags of other kinds of model are then ignored if they have
   * their default values.
   */
  readonly allowDefaults?: boolean;
}

/**
 * Rejects flags that the model to train does not support.
 *
 * @throws ConfigurationError `MTL_FLAG_MODEL`
 */
export function checkModelOfFlags({ model, values, where, allowDefaults }: CheckModelOfFlagsOptions): void {
  for (const [name, value] of values) {
    const other = modelOfFlag(name);
    if (other === undefined || other === model) continue;
    if (allowDefaults === true && value === defaultFlags[name]) continue;
    throw new ConfigurationError(
      'MTL_FLAG_MODEL',
      `--${name} ${where} is a flag of ${other.toUpperCase()}, this is ${model.toUpperCase()}`,
      {
        remedy: `leave it out, or train a ${other.toUpperCase()}: npm run ${other}-train`,
        details: { flag: name, model, other },
      },
    );
  }
}
