import type { ArchitectureField } from '../architecture/architecture-field.js';
import { listFields } from '../architecture/fields-of.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { type FlagName, findFlagFacts, flagGroups, flagNames, isFlagName } from '../schema/flag-schema.js';
import { flagsOfStart } from './flags-of-start.js';
import type { ConfigurationJson } from './saved-configuration.js';

/** The part of a run, or of a checkpoint, that contains its settings. */
type Settings = Pick<ConfigurationJson, 'flags' | 'resolved'>;

/** A setting, by its flag, that two runs have with different values. */
export interface LearningDifference {
  readonly flag: FlagName;
  readonly before: string;
  readonly now: string;
}

/** Fields of the architecture that decide learning. */
const learningFields = new Map<FlagName, ArchitectureField>(
  listFields().filter(([, { decides }]) => decides === 'learning'),
);

/**
 * Returns a function that finds the compared value of a flag; undefined if the flag is not compared. If an
 * older version did not have the flag, its default had been in effect.
 */
function comparedValue(flag: FlagName): ((settings: Settings) => unknown) | undefined {
  const { learning, default: otherwise = 'none' } = findFlagFacts(flag);
  if (learning === true) return ({ flags }) => flags[flag] ?? otherwise;
  if (learning !== undefined) return ({ resolved }) => learning(resolved);
  const field = learningFields.get(flag);
  if (field === undefined) return undefined;
  const { key, isUnused } = field;
  return ({ resolved: { model, bert } }) => {
    const values = { ...model, ...bert } as Readonly<Record<string, unknown>>;
    // models that may lack the field learn differently without it
    return values[key] ?? (isUnused?.(values) === false ? 'none' : undefined);
  };
}

const listNames = (topic: 'model' | 'optimizer'): readonly string[] =>
  flagGroups.flatMap((group) => (group.topic === topic ? Object.keys(group.flags) : []));

/** The flags that a report names first; all others follow in the order of help. */
const first = ['seed', ...listNames('model'), ...listNames('optimizer'), 'global-batch-size', 'seq-length'];
const findPlace = (flag: FlagName): number => (first.includes(flag) ? first.indexOf(flag) : first.length);

/** The flags whose values are compared, according to the declarations of flags and of the architecture. */
const learningSettings = [...flagNames]
  .sort((one, other) => findPlace(one) - findPlace(other))
  .flatMap((flag) => {
    const valueIn = comparedValue(flag);
    return valueIn === undefined ? [] : [{ flag, valueIn }];
  });

/** The flags of the schedule and of a run's initial weights, but not the folder from which a run resumes. */
const ofScheduleAndStart: ReadonlySet<string> = new Set([
  ...['train-iters', 'train-samples', 'rampup-batch-size', 'iterations-to-skip'],
  ...flagsOfStart.filter((name) => name !== 'load'),
]);

/**
 * Returns whether runs with other values of a flag learn differently, so that different losses are not only
 * due to rounding. False for flags of layouts and reports, and for names that are not a flag.
 */
export function decidesLearning(name: string): boolean {
  if (!isFlagName(name)) return false;
  if (ofScheduleAndStart.has(name) || comparedValue(name) !== undefined) return true;
  return flagGroups.some((group) => 'decidesLearning' in group && Object.hasOwn(group.flags, name));
}

/**
 * Returns the settings that decide how a model learns and that differ between a run and the checkpoint that
 * it resumes. A setting that only one of the two has is not a difference.
 */
export function learningDifferences(
  before: Partial<Settings>,
  now: PretrainingConfiguration,
): readonly LearningDifference[] {
  const { flags, resolved } = before;
  if (flags === undefined || resolved === undefined) return [];
  return learningSettings.flatMap(({ flag, valueIn }) => {
    const old = formatValue(recorded(valueIn, { flags, resolved }));
    const current = formatValue(valueIn({ flags: now.flags, resolved: now }));
    if (old === undefined || current === undefined || old === current) return [];
    return [{ flag, before: old, now: current }];
  });
}

/**
 * Returns a value from the settings of a checkpoint; undefined if it is in a part that an older version did
 * not record.
 */
function recorded(valueIn: (settings: Settings) => unknown, settings: Settings): unknown {
  try {
    return valueIn(settings);
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

function formatValue(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  return Array.isArray(value) ? value.join(' ') : String(value);
}
