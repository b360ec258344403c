import { architectureFlags, type PretrainingConfiguration, tokenizerFlagsOf } from '@mtl/configuration';
import type { Tokenizer } from '@mtl/data';
import type { TransformerConfiguration } from '@mtl/models';
import { flagsWithSchedule } from './schedule-settings.js';

export interface ResolvedFlagsOptions {
  readonly configuration: PretrainingConfiguration;
  readonly model: TransformerConfiguration;
  readonly tokenizer: Pick<Tokenizer, 'options'>;
}

/**
 * The flags of a run with the values in force, also of those that follow from others and of those that a
 * checkpoint gives: equal for runs that train alike, however they were started.
 */
export function resolvedFlags(options: ResolvedFlagsOptions): Readonly<Record<string, unknown>> {
  const { configuration, model, tokenizer } = options;
  const { flags, kind, optimizer, training } = configuration;
  return {
    ...flagsWithSchedule(flags, optimizer),
    ...architectureFlags({ kind, model }),
    ...(tokenizer.options === undefined ? {} : tokenizerFlagsOf(tokenizer.options)),
    'seq-length': configuration.model.sequenceLength,
    'global-batch-size': training.globalBatchSize,
    'train-iters': training.trainIterations,
  };
}
