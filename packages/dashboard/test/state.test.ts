import { describe, expect, it } from 'vitest';
import { formatAddress, parseView } from '../page/address.js';
import { State } from '../page/state.js';
import type { RunSummary } from '../src/api-types.js';

/** Ten runs, the last one newest. */
function stateOfRuns(): State {
  const state = new State();
  const runs = Array.from({ length: 10 }, (_, at) => ({
    id: `${at < 3 ? 'small' : 'large'}-${at}`,
    startedAt: `2026-11-22T1${at}:00:00.000Z`,
  }));
  state.receive({ directory: '/runs', runs: runs as unknown as RunSummary[], removed: [], isAll: true });
  return state;
}

describe('the runs that the server sends', () => {
  const receive = (state: State, id: string, isAll: boolean): void => {
    const run = { id, startedAt: null } as RunSummary;
    state.receive({ directory: '/runs', runs: [run], removed: [], isAll });
  };

  it('replace those that are there where they are all runs, and are added to them otherwise', () => {
    const state = stateOfRuns();
    receive(state, 'new', false);
    expect(state.listed.length).toBe(11);
    receive(state, 'new', true);
    expect(state.listed.map(({ id }) => id)).toEqual(['new']);
  });
});

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

  it('keeps the latest runs behind it where none was chosen before', () => {
    const state = stateOfRuns();
    state.update({ filter: 'small' });
    state.show('small-1', false);
    expect(state.shown).toEqual(['small-2', 'small-0']);
    state.update({ filter: '' });
    const latest = [9, 8, 7, 6, 5, 4, 3].map((at) => `large-${at}`);
    expect(state.shown).toEqual([...latest, 'small-2', 'small-0']);
  });

  it('is in the address', () => {
    const state = stateOfRuns();
    expect(formatAddress(state.view)).toBe('');
    state.update({ filter: 'a&b' });
    expect(formatAddress(state.view)).toBe('?filter=a%26b');
    expect(parseView('?filter=a%26b')).toEqual({ filter: 'a&b' });
  });
});
