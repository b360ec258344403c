import { UsageError } from '@mtl/errors';

/**
 * What the first or the last stage needs of a micro-batch.
 * @throws UsageError MTL_STAGE where it got an outline only
 */
export function neededTokens<Values>(values: Values | undefined): Values {
  if (values !== undefined) return values;
  throw new UsageError('MTL_STAGE', 'the first and the last stage need the tokens of a micro-batch', {
    expected: 'a complete batch: an outline is enough for the stages between them',
  });
}
