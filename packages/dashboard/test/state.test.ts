import { describe, expect, it } from 'vitest';
import { addressOf, viewOf } from '../page/address.js';
import { State } from '../page/state.js';
import type { RunSummary } from '../src/api-types.js';

/** Ten runs, the last one newest. */
function stateOfRuns(): State {
  const state = new State();
  const runs = Array.from({ length: 10 }, (_, at) => ({
    id: `${at < 3 ? 'small' : 'large'}-${at}`,
    startedAt: `2026-11-22T1${at}:00:00.000Z`,
  }));
  state.receive({ directory: '/runs', runs: runs as unknown as RunSummary[], removed: [] });
  return state;
}

describe('the filter of runs', () => {
  it('leaves curves of runs whose names have it, also of those beyond the latest eight', () => {
    const state = stateOfRuns();
    expect(state.shown.length).toBe(8);
    state.update({ filter: ' SMALL ' });
    expect(state.shown).toEqual(['small-2', 'small-1', 'small-0']);
    expect(state.focus).toBe('small-2');
    state.update({ filter: 'none like it' });
    expect([state.listed, state.shown, state.focus]).toEqual([[], [], undefined]);
  });

  it('keeps what was chosen behind it, and the focus', () => {
    const state = stateOfRuns();
    state.update({ chosen: ['large-9', 'small-0', 'small-1'], chosenFocus: 'large-9', filter: 'small' });
    state.show('small-1', false);
    expect(state.shown).toEqual(['small-0']);
    expect(state.focus).toBe('small-0');
    state.update({ filter: '' });
    expect(state.shown).toEqual(['large-9', 'small-0']);
    expect(state.focus).toBe('large-9');
  });

  it('is in the address', () => {
    const state = stateOfRuns();
    expect(addressOf(state.view)).toBe('');
    state.update({ filter: 'a&b' });
    expect(addressOf(state.view)).toBe('?filter=a%26b');
    expect(viewOf('?filter=a%26b')).toEqual({ filter: 'a&b' });
  });
});
