import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { confirm } from './confirm.js';

const refused = { code: 'MTL_HUB_NOT_CONFIRMED' };

/** Asks for confirmation, with `text` as the user's input; undefined ends the input without an answer. */
async function answered(text: string | undefined, isTTY = true): Promise<string> {
  const input = Object.assign(new PassThrough(), { isTTY });
  const output = Object.assign(new PassThrough(), { isTTY });
  input.end(text);
  await confirm('upload?', { input, output });
  return String(output.read());
}

it.each(['y\n', 'Yes\n'])('takes %j for yes', async (text) => {
  expect(await answered(text)).toContain('upload? [y/N]');
});

it.each(['n\n', '\n', 'yet\n', undefined])('takes %j for no', async (text) => {
  await expect(answered(text)).rejects.toMatchObject(refused);
});

it('takes no answer that comes from no terminal', async () => {
  await expect(answered('y\n', false)).rejects.toMatchObject(refused);
});
