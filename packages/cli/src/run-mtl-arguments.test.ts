import { catchError, takes, valuesOfAllTypes } from '@mtl/errors/testing';
import { expect, it } from 'vitest';
import { runMtl } from './run-mtl.js';

it('runMtl refuses what is no array of texts', async () => {
  for (const value of valuesOfAllTypes.filter((each) => !takes.arrayOfTexts(each))) {
    const message = expect.stringMatching(/^argv(\[0\])? is /);
    expect(await catchError(() => runMtl(value as string[]))).toMatchObject({ code: 'MTL_OPTION', message });
  }
});
