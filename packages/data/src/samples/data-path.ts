import { existsSync } from 'node:fs';
import { ConfigurationError, UsageError } from '@mtl/errors';

/** Several datasets, and their weights if the user has given any. */
export interface DataBlend {
  readonly prefixes: readonly string[];
  /**
   * The weights that the user has given, not normalized. If it is undefined, the weights are proportional to
   * the datasets' sizes.
   */
  readonly weights: readonly number[] | undefined;
  /** True for synthetic data without files (see `mockDataBlend`). */
  readonly isMock?: boolean;
}

/**
 * Parses the list of `--data-path` as Megatron does: pairs `weight prefix weight prefix ...` if the length is
 * even and the first element of every pair is a number. Otherwise, every element is a prefix. A mixture is an
 * error.
 *
 * @throws ConfigurationError MTL_DATA_PATH, MTL_DATA_BLEND_WEIGHTS
 */
export function parseDataPath(values: readonly string[]): DataBlend {
  if (!Array.isArray(values) || values.some((value) => typeof value !== 'string')) {
    throw new UsageError('MTL_DATA_PATH', 'the words of a data path are not an array of texts', {
      expected: "['PREFIX'] or ['0.3', 'PREFIX', '0.7', 'PREFIX']",
    });
  }
  if (values.length === 0) {
    throw new ConfigurationError('MTL_DATA_PATH', 'a data path (--data-path) is empty', {
      expected: 'PREFIX, or WEIGHT PREFIX WEIGHT PREFIX ...',
    });
  }
  const asPrefixes = { prefixes: values.map((value) => value.trim()), weights: undefined };
  if (values.length % 2 === 1) return asPrefixes;
  const weights = values.filter((_, i) => i % 2 === 0).map(toNumber);
  if (weights.every((weight) => weight === undefined)) return asPrefixes;
  if (weights.some((weight) => weight === undefined || weight < 0)) {
    const wrong = values[2 * weights.findIndex((weight) => weight === undefined || weight < 0)];
    throw new ConfigurationError(
      'MTL_DATA_PATH',
      `a data path (--data-path) has "${wrong}" where a weight was expected`,
      {
        expected: 'either only prefixes, or a non-negative weight before every prefix',
      },
    );
  }
  if (weights.every((weight) => weight === 0)) {
    throw new ConfigurationError(
      'MTL_DATA_BLEND_WEIGHTS',
      `--data-path ${values.join(' ')}: all weights are 0`,
      {
        expected: 'one weight above 0, or more',
        remedy:
          'give each dataset its share, such as 0.7 and 0.3, or leave the weights out: sizes decide then',
      },
    );
  }
  return {
    prefixes: values.filter((_, i) => i % 2 === 1).map((value) => value.trim()),
    weights: weights as number[],
  };
}

/**
 * Throws if a list without weights contains a number, unless the number is a dataset's prefix. Megatron would
 * treat the number as a prefix, but the user meant a weight.
 *
 * @throws ConfigurationError MTL_DATA_PATH
 */
export function checkNoWeightAmongPrefixes({ prefixes, weights }: DataBlend): void {
  if (weights !== undefined || prefixes.length === 1) return;
  const weight = prefixes.find((prefix) => toNumber(prefix) !== undefined && !existsSync(`${prefix}.idx`));
  if (weight === undefined) return;
  const datasets = prefixes.filter((prefix) => toNumber(prefix) === undefined);
  throw new ConfigurationError(
    'MTL_DATA_PATH',
    `--data-path ${prefixes.join(' ')}: "${weight}" is a weight, and not every prefix has one`,
    {
      expected: 'either only prefixes, or a non-negative weight before every prefix',
      remedy: `write ${datasets.map((prefix) => `WEIGHT ${prefix}`).join(' ')}, or ${datasets.join(' ')} without weights`,
    },
  );
}

function toNumber(text: string): number | undefined {
  return /^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$/.test(text) ? Number(text) : undefined;
}
