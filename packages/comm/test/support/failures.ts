import type { RankProcess } from '@mtl/comm/testing';
import { expect } from 'vitest';

/** What every error of an operation says besides the rank. */
export const complete = {
  group: 'world',
  operation: expect.any(String),
  sequence: expect.stringMatching(/^(collective|message) \d+$/),
  waitedMs: expect.any(Number),
};

/** What the survivors reported, in order of their ranks, after all of them have ended by themselves with status 1. */
export async function errorsOf(survivors: readonly RankProcess[]) {
  const ended = await Promise.all(survivors.map((rank) => rank.ended));
  return survivors.map(({ lines, stderr }, index) => {
    const last = lines.at(-1);
    if (last?.error === undefined) throw new Error(`no error, status ${ended[index]}: ${stderr()}`);
    expect(ended[index], stderr()).toBe(1);
    return { ...last.error, at: last.at! };
  });
}

export const ready = (processes: readonly RankProcess[]) =>
  Promise.all(processes.map((rank) => rank.said('ready')));
