import { UsageError } from '@mtl/errors';

/**
 * Refuses ids that a tokenizer does not have, such as those of another one, instead of leaving them out of a
 * text, and gives them as numbers.
 *
 * @throws UsageError MTL_DATA_TOKEN_OUT_OF_VOCABULARY
 */
export function checkIds(ids: ArrayLike<number | bigint>, vocabularySize: number): number[] {
  const numbers = Array.from(ids, Number);
  for (const [index, id] of numbers.entries()) {
    if (Number.isInteger(id) && id >= 0 && id < vocabularySize) continue;
    throw new UsageError(
      'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
      `token id ${id} (number ${index} of the text) does not exist`,
      {
        expected: `0 to ${vocabularySize - 1}`,
        remedy: 'decode with the tokenizer that the ids come from',
      },
    );
  }
  return numbers;
}
