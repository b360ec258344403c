import type { ArchitectureField } from '../architecture/architecture-field.js';
import { listFields } from '../architecture/list-fields.js';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';
import { type FlagName, findFlagFacts, flagGroups, flagNames, isFlagName } from '../schema/flag-schema.js';
import { flagsOfStart } from './flags-of-start.js';
import type { ConfigurationJson } from './saved-configuration.js';

/** The settings of a run or of a checkpoint. */
type Settings = Pick<ConfigurationJson, 'flags' | 'resolved'>;

/** A setting that differs between two runs, identified by its flag. */
export interface LearningDifference {
  readonly flag: FlagName;
  readonly before: string;
  readonly now: string;
}

/** Fields of the architecture that affect how the model is trained. */
const learningFields = new Map<FlagName, ArchitectureField>(
  listFields().filter(([, { decides }]) => decides === 'learning'),
);

/**
 * Returns a function that finds the value of a flag to compare, or undefined if the flag is not compared. For
 * settings from a version without the flag, the function returns the flag's default, which was in effect.
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
    // a model that lacks this optional field computes something different
    return values[key] ?? (isUnused?.(values) === false ? 'none' : undefined);
  };
}

const listNames = (topic: 'model' | 'optimizer'): readonly string[] =>
  flagGroups.flatMap((group) => (group.topic === topic ? Object.keys(group.flags) : []));

/** The flags that a report lists first. All others follow in the order of help. */
const first = ['seed', ...listNames('model'), ...listNames('optimizer'), 'global-batch-size', 'seq-length'];
const findPlace = (flag: FlagName): number => (first.includes(flag) ? first.indexOf(flag) : first.length);

/** The flags whose values are compared, as declared by flags and by the architecture. */
const learningSettings = [...flagNames]
  .sort((one, other) => findPlace(one) - findPlace(other))
  .flatMap((flag) => {
    const valueIn = comparedValue(flag);
    return valueIn === undefined ? [] : [{ flag, valueIn }];
  });

/** Flags of the schedule and of a run's initial weights, without the folder from which a run resumes. */
const ofScheduleAndStart: ReadonlySet<string> = new Set([
  ...['train-iters', 'train-samples', 'rampup-batch-size', 'iterations-to-skip'],
  ...flagsOfStart.filter((name) => name !== 'load'),
]);

/**
 * Returns true if the flag affects training, so that the losses of runs with different values differ by more
 * than rounding. Returns false for flags of layouts and reports, and for names that are not flags.
 */
export function decidesLearning(name: string): boolean {
  if (!isFlagName(name)) return false;
  if (ofScheduleAndStart.has(name) || comparedValue(name) !== undefined) return true;
  return flagGroups.some((group) => 'decidesLearning' in group && Object.hasOwn(group.flags, name));
}

/**
 * Returns the settings that affect training and that differ between a run and its checkpoint. A setting that
 * exists on only one side is not a difference.
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
 * Returns a value in the settings of a checkpoint; undefined if an older version saved the checkpoint and did
 * not record the settings that contain the value.
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
