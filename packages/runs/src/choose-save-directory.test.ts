import { expect, it } from 'vitest';
import { chooseSaveDirectory } from './save-directory.js';

const startedAt = new Date('2026-11-22T15:13:07.123Z');
const choose = (flags: Parameters<typeof chooseSaveDirectory>[0]['flags']): string =>
  chooseSaveDirectory({ flags, preset: 'default', startedAt, processId: 42 });
const fresh = 'runs/default-2026-11-22-151307-42';

it.each([
  ['--save', { save: 's' }, 's'],
  ['--save before --load', { save: 's', load: 'l' }, 's'],
  ['the folder that a run continues', { load: 'l' }, 'l'],
  ['a new one', {}, fresh],
  ['a new one for --finetune: its iterations begin at 0', { load: 'l', finetune: true }, fresh],
  ['a new one for --ckpt-step: later checkpoints are not its own', { load: 'l', 'ckpt-step': 3 }, fresh],
  ['--save with --finetune', { save: 's', load: 'l', finetune: true }, 's'],
] as const)('is %s', (_, flags, expected) => {
  expect(choose(flags)).toBe(expected);
});
