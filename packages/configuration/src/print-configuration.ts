import type { PretrainingConfiguration } from './pretraining-configuration.js';
import { type FlagName, flagGroups } from './schema/flag-schema.js';
import { modelOfFlag } from './schema/model-of-flag.js';
import { layoutText } from './strategies/strategies.js';

export interface PrintConfigurationOptions {
  /**
   * True to include every flag, false to include only flags that a preset, a file or the command line sets.
   * Default: true.
   */
  readonly all?: boolean;
}

/**
 * Returns the configuration as text, to print at the start of a run: flags by group with their values and
 * sources, derived values, and flags without effect.
 */
export function printConfiguration(
  configuration: PretrainingConfiguration,
  { all = true }: PrintConfigurationOptions = {},
): string {
  const { flags, sources, notices, preset } = configuration;
  const groups = flagGroups.flatMap(({ title, flags: group }) => {
    const names = (Object.keys(group) as FlagName[]).filter(
      (name) =>
        [undefined, configuration.kind].includes(modelOfFlag(name)) &&
        (all || ![undefined, 'default'].includes(sources.get(name))),
    );
    // if the model has no experts, the flags of experts have no values
    if (title === 'Experts' && flags['num-experts'] === undefined) return [];
    const rows = names.map((name) => [name, formatValue(flags[name]), sources.get(name) ?? ''] as const);
    return rows.length === 0 ? [] : [section(title, rows)];
  });
  const derived = section(
    'What follows',
    derivedValues(configuration).map(([name, value]) => [name, value, ''] as const),
  );
  const notes = notices.map((notice) => `  note: ${notice}`);
  return [
    `configuration (${preset === 'none' ? 'no preset' : `preset ${preset}`})`,
    ...groups,
    derived,
    ...notes,
  ].join('\n');
}

function section(title: string, rows: ReadonlyArray<readonly [string, string, string]>): string {
  const lines = rows.map(([name, value, source]) =>
    `    ${name.padEnd(40)} ${value.padEnd(24)} ${source}`.trimEnd(),
  );
  return [`  ${title}`, ...lines].join('\n');
}

function formatValue(value: unknown): string {
  if (value === undefined) return '-';
  if (value === 2 ** 32) return '2^32';
  return Array.isArray(value) ? value.join(' ') : String(value);
}

function derivedValues(configuration: PretrainingConfiguration): ReadonlyArray<readonly [string, string]> {
  const { model, training, optimizer } = configuration;
  const { learningRate } = optimizer;
  return [
    ['head size', String(model.headSize)],
    ['feed-forward size', String(model.ffnHiddenSize)],
    ['positions', String(model.maxPositionEmbeddings)],
    ['precision', training.precision],
    [
      'global batch size',
      `${training.globalBatchSize} = ${training.globalBatchSize * model.sequenceLength} tokens`,
    ],
    ['micro-batches per step', String(training.numMicroBatches)],
    ['steps', String(training.trainIterations)],
    // the warm-up may be fractional, such as 0.05 of 12 steps, so it is rounded
    [
      'warm-up',
      `${Number((learningRate.warmupSteps ?? 0).toPrecision(6))} of ${learningRate.decaySteps} ${learningRate.unit}`,
    ],
    ['processes', processesText(configuration)],
  ];
}

/** Returns a string such as `4 = tensor 2 x pipeline 1 x data 2`. */
export function processesText({ parallel }: PretrainingConfiguration): string {
  return `${parallel.worldSize} = ${layoutText(parallel)}`;
}
