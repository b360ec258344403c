import { UsageError } from '@mtl/errors';

/**
 * Refuses ids that a tokenizer does not have, such as those of another one, instead of leaving them out of a
 * text.
 *
 * @throws UsageError MTL_DATA_TOKEN_OUT_OF_VOCABULARY
 */
export function checkIds(ids: ArrayLike<number>, vocabularySize: number): void {
  for (let index = 0; index < ids.length; index++) {
    const id = ids[index]!;
    if (Number.isInteger(id) && id >= 0 && id < vocabularySize) continue;
    throw new UsageError(
      'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
      `there is no token ${id} (number ${index} of the text)`,
      {
        expected: `0 to ${vocabularySize - 1}`,
        remedy: 'decode with the tokenizer that the ids come from',
      },
    );
  }
}
