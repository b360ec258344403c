import { ConfigurationError } from '@mtl/errors';
import type { ModelKind } from '../model-kind.js';
import { defaultFlags, type FlagName } from './flag-schema.js';
import { modelOfFlag } from './model-of-flag.js';

export interface CheckModelOfFlagsOptions {
  /** The model that is to be trained. */
  readonly model: ModelKind;
  readonly values: ReadonlyMap<FlagName, unknown>;
  /** Where they stand: `on the command line`, `in run.yaml`. */
  readonly where: string;
  /** A file that holds all flags holds the defaults of the other model's as well, which say nothing. */
  readonly allowDefaults?: boolean;
}

/** @throws ConfigurationError `MTL_FLAG_MODEL` for a flag of another model than the one to be trained */
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
