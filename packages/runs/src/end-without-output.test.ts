import { describe, expect, it } from 'vitest';
import { endWithoutOutput } from './end-without-output.js';

const numListeners = () => [process.stdout, process.stderr].map((stream) => stream.listenerCount('error'));

describe('endWithoutOutput', () => {
  it('listens once, however often it is called', () => {
    endWithoutOutput({ exitCode: 3 });
    const once = numListeners();
    for (let call = 0; call < 20; call++) endWithoutOutput({ exitCode: 3 });
    expect(numListeners()).toEqual(once);
  });
});
