import type { MarkKind } from './api-types.js';

type Fields = Readonly<Record<string, unknown>>;

/** A description of a record of metrics.jsonl. */
export interface EventWords {
  readonly kind: MarkKind;
  /** The description in one line. */
  readonly text: string;
}

const known: Readonly<Record<string, (fields: Fields) => EventWords>> = {
  spike: spikeWords,
  roll_back: ({ checkpoint, checkpoint_iteration: step }) => ({
    kind: 'rollback',
    text:
      typeof step === 'number'
        ? `went back to the checkpoint of step ${numberWords(step)}`
        : `could not go back${checkpoint === null ? ': no checkpoint was saved yet' : ''}`,
  }),
  rerun: rerunWords,
  slow_rank: ({ rank, host, is_slow: isSlow }) => ({
    kind: 'event',
    text: `rank ${formatValue(rank)}${typeof host === 'string' ? ` on ${host}` : ''} is ${isSlow === false ? 'fast again' : 'slow'}`,
  }),
};

/** Describes an event. For an unknown type, the description is the type's name and the fields. */
export function wordsOfEvent(type: string, fields: Fields): EventWords {
  const words = known[type];
  if (words !== undefined) return words(fields);
  const rest = formatValue(fields);
  return { kind: 'event', text: `${type.replaceAll(/[-_]/g, ' ')}${rest === '' ? '' : `: ${rest}`}` };
}

const endingsOfSpikes: Readonly<Record<string, string>> = {
  update: 'its update was kept',
  skip: 'its update was skipped',
  'roll-back': 'the run went back',
};

function spikeWords(fields: Fields): EventWords {
  const { action, lm_loss: loss, grad_norm: norm } = fields;
  const figures = [
    figureWords('training loss', loss, fields.lm_loss_limit),
    figureWords('gradient norm', norm, fields.grad_norm_limit),
  ].filter((text) => text !== undefined);
  const ending = endingsOfSpikes[String(action)];
  return {
    kind: action === 'update' ? 'reported' : 'spike',
    text: [
      `spike${figures.length === 0 ? '' : `: ${figures.join(', ')}`}`,
      ...(ending === undefined ? [] : [ending]),
    ].join('; '),
  };
}

function figureWords(name: string, value: unknown, limit: unknown): string | undefined {
  if (typeof value !== 'number') return undefined;
  return `${name} ${numberWords(value)}${typeof limit === 'number' ? ` (limit ${numberWords(limit)})` : ''}`;
}

function rerunWords({ result, ranks }: Fields): EventWords {
  const isFault = result !== 'reproducible';
  const where =
    Array.isArray(ranks) && ranks.length > 0 ? ` of rank ${ranks.map(formatValue).join(', ')}` : '';
  const text = isFault
    ? `computed again with other results: a fault${where}`
    : 'computed again with the same results';
  return { kind: 'event', text };
}

const numberWords = (value: number): string =>
  Number(value.toPrecision(4)).toLocaleString('en-US', { maximumSignificantDigits: 4 });

/** Formats a value in a record: numbers with four significant digits, lists and objects without brackets. */
function formatValue(value: unknown): string {
  if (typeof value === 'number' && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  if (Array.isArray(value)) return value.map(formatValue).join(' ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, of]) => `${name.replaceAll('_', ' ')} ${formatValue(of)}`)
    .join(', ');
}
