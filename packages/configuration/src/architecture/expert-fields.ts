import * as z from 'zod';
import {
  anyNumber,
  choice,
  choices,
  count,
  nonNegativeNumber,
  numberList,
  openToggle,
  patternedText,
  positiveNumber,
} from '../flags/flag-kinds.js';
import { type ArchitectureField, type KnownValues, neverUnused, presentIfOn } from './architecture-field.js';

/**
 * The layers that have experts, as in --moe-layer-freq: N for every Nth layer beginning with the first, or a
 * list with 1 for each layer that has experts and 0 for each that has none.
 */
export type ExpertLayers = number | readonly number[];

/**
 * The most layers of a list, more than any model has: `[1]*99999999` is a mistake, and would take all memory.
 */
const mostLayers = 10_000;

/** Matches the lists that `expertLayersText` writes. */
export const layersPattern = /^([1-9]\d*|\[[01](,[01])*\](\*\d+)?(\+\[[01](,[01])*\](\*\d+)?)*)$/;

/**
 * Reads a number, or a list as Python writes it, of 0 and 1 in brackets, repeated by `*`, joined by `+`, and
 * with parentheses: `([0]*3+[1]*58)`, `[0,1]*2`. Nothing else is evaluated.
 *
 * @returns undefined for any other text, for an empty list, and for more than 10,000 layers
 */
export function readExpertLayers(text: string): ExpertLayers | undefined {
  const words = text.match(/\d+|\S/g) ?? [];
  if (words.length === 1) {
    const number = Number(words[0]);
    return Number.isSafeInteger(number) && number > 0 ? number : undefined;
  }
  const reader = new ListReader(words);
  const layers = reader.sum();
  return reader.isAtEnd && layers !== undefined && layers.length > 0 ? layers : undefined;
}

/** Parses a list from left to right; undefined for a text that is no list. */
class ListReader {
  readonly #words: readonly string[];
  #at = 0;

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#words.length;
  }

  /** Parses `product + product ...`. */
  sum(): readonly number[] | undefined {
    let sum = this.#product();
    while (sum !== undefined && this.#takes('+')) {
      const next = this.#product();
      sum = next === undefined || sum.length + next.length > mostLayers ? undefined : [...sum, ...next];
    }
    return sum;
  }

  /** Parses `list * N ...` or `N * list ...`. */
  #product(): readonly number[] | undefined {
    let times = this.#number();
    if (times !== undefined && !this.#takes('*')) return undefined;
    const list = this.#list();
    if (list === undefined) return undefined;
    times ??= 1;
    while (this.#takes('*')) {
      const factor = this.#number();
      if (factor === undefined) return undefined;
      times *= factor;
    }
    if (list.length * times > mostLayers) return undefined;
    return Array.from({ length: list.length * times }, (_, index) => list[index % list.length]!);
  }

  /** Parses `[0, 1]`, or a sum in parentheses. */
  #list(): readonly number[] | undefined {
    if (this.#takes('(')) {
      const sum = this.sum();
      return this.#takes(')') ? sum : undefined;
    }
    if (!this.#takes('[')) return undefined;
    const list: number[] = [];
    while (!this.#takes(']')) {
      const number = this.#number();
      if (number !== 0 && number !== 1) return undefined;
      list.push(number);
      if (!this.#takes(',') && this.#words[this.#at] !== ']') return undefined;
    }
    return list;
  }

  #number(): number | undefined {
    const word = this.#words[this.#at] ?? '';
    if (!/^\d+$/.test(word)) return undefined;
    this.#at += 1;
    return Number(word);
  }

  #takes(word: string): boolean {
    const isThere = this.#words[this.#at] === word;
    if (isThere) this.#at += 1;
    return isThere;
  }
}

/**
 * Returns the canonical text of the layers with experts, which `readExpertLayers` and Megatron-LM read: `2`,
 * `[0,1]*12`, `[0]*3+[1]*58`.
 */
export function expertLayersText(layers: ExpertLayers): string {
  if (typeof layers === 'number') return String(layers);
  const period = periodOf(layers);
  if (period < layers.length) return repeated(layers.slice(0, period), layers.length / period);
  // runs of equal values; neighbouring values that do not repeat share one pair of brackets
  const parts: { list: number[]; times: number }[] = [];
  for (const layer of layers) {
    const last = parts.at(-1);
    if (last?.list.length === 1 && last.list[0] === layer) last.times += 1;
    else parts.push({ list: [layer], times: 1 });
  }
  const joined: typeof parts = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (last?.times === 1 && part.times === 1) last.list.push(...part.list);
    else joined.push(part);
  }
  return joined.map(({ list, times }) => repeated(list, times)).join('+');
}

const repeated = (list: readonly number[], times: number): string =>
  `[${list.join()}]${times === 1 ? '' : `*${times}`}`;

/** Returns the length of the shortest beginning whose repetition gives the list. */
function periodOf(list: readonly number[]): number {
  const lengths = Array.from({ length: list.length }, (_, index) => index + 1);
  return lengths.find(
    (length) => list.length % length === 0 && list.every((value, index) => value === list[index % length]),
  )!;
}

/** Returns undefined for 0, by which Megatron-LM means that a model lacks the property. */
const unlessZero = (value: unknown): unknown => (value === 0 ? undefined : value);
const unlessNegative = (value: unknown): unknown =>
  typeof value === 'number' && value < 0 ? undefined : value;

/**
 * Returns the canonical text of a list of layers; any other value unchanged, so that the schema rejects it.
 */
function canonicalLayers(value: unknown): unknown {
  const isList = Array.isArray(value) && value.every((layer) => layer === 0 || layer === 1);
  if (isList && value.length > 0) return expertLayersText(value as readonly number[]);
  const layers = typeof value === 'string' ? readExpertLayers(value) : undefined;
  return layers === undefined ? [value] : expertLayersText(layers);
}

const hasNoExperts = ({ numExperts }: KnownValues): boolean => numExperts === undefined;

/**
 * Makes a field of experts: models without experts do not state it, others state it if it has a value.
 *
 * @param isUnused returns whether nothing in a model with experts depends on the field. Default: always false
 */
const ofExperts = (
  otherwise?: (known: KnownValues) => unknown,
  isUnused: (known: KnownValues) => boolean = () => false,
) => {
  const isAbsent = (known: KnownValues): boolean => hasNoExperts(known) || isUnused(known);
  return {
    kind: 'gpt',
    isUnused: isAbsent,
    otherwise: (known: KnownValues) => (isAbsent(known) ? undefined : otherwise?.(known)),
  } as const;
};

/**
 * The mixture of experts in the table of the architecture, by Megatron-LM's names and with its defaults. No
 * flag has a default in its schema: configurations of models without experts have none of these keys.
 */
export const expertFields = {
  'num-experts': {
    flag: count(
      'Experts of a layer, of which each token uses a few, in place of one feed-forward network; 0: none.',
      {
        expected: 'a whole number of 1 or more, or 0 for none',
        canonical: unlessZero,
      },
    ),
    kind: 'gpt',
    isUnused: neverUnused,
    key: 'numExperts',
    decides: 'weights',
    isSize: true,
  },
  'moe-layer-freq': {
    flag: patternedText(
      'Which layers have experts: every Nth from the first on, or a list with 1 for each that has them and 0 for each that is dense, such as "([0]*3+[1]*58)".',
      {
        pattern: layersPattern,
        placeholder: 'N|LIST',
        expected: 'a number, or a list of 0 and 1 such as [0,1]*12 or ([0]*3+[1]*58)',
        defaultText: '1',
        canonical: canonicalLayers,
      },
    ),
    ...ofExperts(() => '1'),
    key: 'moeLayerFreq',
    decides: 'weights',
    conversion: {
      asModel: (text: unknown) => readExpertLayers(text as string),
      asFlag: (layers: unknown) => expertLayersText(layers as ExpertLayers),
      saved: z.union([z.int().min(1), z.array(z.literal([0, 1])).min(1)]),
    },
  },
  'moe-ffn-hidden-size': {
    flag: count('Width of an expert.', {
      defaultText: '--ffn-hidden-size, which is the width of dense layers',
    }),
    ...ofExperts(({ ffnHiddenSize }) => ffnHiddenSize),
    key: 'moeFfnHiddenSize',
    decides: 'weights',
    isSize: true,
  },
  'moe-router-topk': {
    flag: count('Experts that a token uses.', { defaultText: '2' }),
    ...ofExperts(() => 2),
    key: 'moeRouterTopk',
    decides: 'weights',
  },
  'moe-router-score-function': {
    flag: choice(
      ['softmax', 'sigmoid', 'sqrtsoftplus'],
      'How the scores of experts follow from what the router computes for a token.',
      { defaultText: 'softmax' },
    ),
    ...ofExperts(() => 'softmax'),
    key: 'moeRouterScoreFunction',
    decides: 'weights',
  },
  'moe-router-pre-softmax': {
    flag: openToggle(
      'Takes the softmax over all experts and then chooses, instead of over the chosen ones: the weights of a token then have a sum below 1.',
    ),
    ...ofExperts(() => false),
    key: 'moeRouterPreSoftmax',
    decides: 'weights',
  },
  'moe-router-topk-scaling-factor': {
    flag: positiveNumber('What the weights of the chosen experts are multiplied by.', {
      canonical: unlessZero,
    }),
    ...ofExperts(),
    key: 'moeRouterTopkScalingFactor',
    decides: 'weights',
  },
  'moe-router-num-groups': {
    flag: count('Groups of experts, of which a token uses --moe-router-group-topk.'),
    ...ofExperts(),
    key: 'moeRouterNumGroups',
    decides: 'weights',
  },
  'moe-router-group-topk': {
    flag: count('Groups of --moe-router-num-groups that a token chooses its experts from.'),
    ...ofExperts(),
    key: 'moeRouterGroupTopk',
    decides: 'weights',
  },
  'moe-router-enable-expert-bias': {
    flag: openToggle(
      'Gives each expert a bias that takes part in the choice and moves after each step, up where fewer tokens than the mean chose it and else down: even loads without a loss. With sigmoid or sqrtsoftplus scores.',
    ),
    ...ofExperts(() => false),
    key: 'moeRouterEnableExpertBias',
    decides: 'weights',
  },
  'moe-router-bias-update-rate': {
    flag: nonNegativeNumber('How far a step moves the biases of --moe-router-enable-expert-bias.', {
      defaultText: '0.001',
    }),
    ...ofExperts(
      () => 1e-3,
      ({ moeRouterEnableExpertBias }) => moeRouterEnableExpertBias !== true,
    ),
    key: 'moeRouterBiasUpdateRate',
    decides: 'learning',
  },
  'moe-router-load-balancing-type': {
    flag: choices(
      ['aux_loss', 'seq_aux_loss', 'global_aux_loss', 'none'],
      'Losses that keep experts from being chosen unevenly: over the tokens of a micro-batch, of each sequence, or of the global batch.',
      { defaultText: 'aux_loss' },
    ),
    ...ofExperts(() => ['aux_loss']),
    key: 'moeRouterLoadBalancingType',
    decides: 'learning',
  },
  'moe-aux-loss-coeff': {
    flag: numberList('What each loss of --moe-router-load-balancing-type is multiplied by.', {
      defaultText: '0',
    }),
    ...ofExperts(() => [0]),
    key: 'moeAuxLossCoeff',
    decides: 'learning',
  },
  'moe-z-loss-coeff': {
    flag: nonNegativeNumber(
      'The weight of a loss that keeps what the router computes small (Zoph et al. 2022); 0.001 is usual.',
      { canonical: unlessZero },
    ),
    ...ofExperts(),
    key: 'moeZLossCoeff',
    decides: 'learning',
  },
  'moe-shared-expert-intermediate-size': {
    flag: count('Width of all shared experts together, which every token uses. With --disable-bias-linear.'),
    ...ofExperts(),
    key: 'moeSharedExpertIntermediateSize',
    decides: 'weights',
    isSize: true,
  },
  'moe-shared-expert-gate': {
    flag: openToggle('Multiplies the output of shared experts by the sigmoid of a learned projection.'),
    ...ofExperts(() => false),
    key: 'moeSharedExpertGate',
    decides: 'weights',
  },
  'moe-expert-capacity-factor': {
    flag: positiveNumber(
      'Drops the tokens of an expert beyond this many times an even share; below 0, and by default, none is dropped.',
      { expected: 'a number above 0, or one below 0 for no capacity', canonical: unlessNegative },
    ),
    ...ofExperts(),
    key: 'moeExpertCapacityFactor',
    decides: 'learning',
  },
  'moe-token-drop-policy': {
    flag: choice(
      ['probs', 'position'],
      'Which tokens --moe-expert-capacity-factor drops: those of the lowest weights, or the last ones.',
      { defaultText: 'probs' },
    ),
    ...ofExperts(
      () => 'probs',
      ({ moeExpertCapacityFactor }) => moeExpertCapacityFactor === undefined,
    ),
    key: 'moeTokenDropPolicy',
    decides: 'learning',
  },
} as const satisfies Readonly<Record<string, ArchitectureField>>;

/** Variants of gated feed-forward layers, which models with experts have. */
export const gateFields = {
  'quick-geglu': {
    flag: openToggle('Gated feed-forward layers with x sigmoid(1.702 x) instead of GELU.'),
    kind: 'gpt',
    key: 'quickGeglu',
    decides: 'weights',
    isUnused: neverUnused,
    conversion: presentIfOn,
  },
  'glu-linear-offset': {
    flag: anyNumber(
      'What is added to the values of gated feed-forward layers before the gates multiply them.',
      {
        defaultText: '0',
        canonical: unlessZero,
      },
    ),
    kind: 'gpt',
    isUnused: neverUnused,
    key: 'gluLinearOffset',
    decides: 'weights',
  },
  'activation-func-clamp-value': {
    flag: positiveNumber(
      'Limits gated feed-forward layers: gates to at most this, values to between this and its negative.',
    ),
    kind: 'gpt',
    isUnused: neverUnused,
    key: 'activationFuncClampValue',
    decides: 'weights',
  },
} as const satisfies Readonly<Record<string, ArchitectureField>>;
