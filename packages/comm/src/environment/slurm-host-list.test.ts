import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expandHostList } from './slurm-host-list.js';

describe('expandHostList', () => {
  it.each([
    ['node1', ['node1']],
    ['a,b', ['a', 'b']],
    ['n[01-04,7]', ['n01', 'n02', 'n03', 'n04', 'n7']],
    ['gpu[1-2],login', ['gpu1', 'gpu2', 'login']],
    ['n[8-11]', ['n8', 'n9', 'n10', 'n11']],
    ['n[098-101].example', ['n098.example', 'n099.example', 'n100.example', 'n101.example']],
    ['rack[1-2]node[1-2]', ['rack1node1', 'rack1node2', 'rack2node1', 'rack2node2']],
  ])('%s', (list, hosts) => {
    expect(expandHostList(list)).toEqual(hosts);
  });

  it.each(['', 'n[1', 'n]1[', 'n[2-1]', 'n[a-b]', 'n[1-99999999]', 'n[[1]]', 'n[1-300]m[1-300]'])(
    'refuses "%s"',
    (list) => {
      expect(() => expandHostList(list)).toThrow(/list of hosts/);
    },
  );

  it('gives back any run of numbers', () => {
    fc.assert(
      fc.property(fc.nat(9999), fc.nat(40), fc.integer({ min: 1, max: 6 }), (first, more, width) => {
        const pad = (number: number): string => String(number).padStart(width, '0');
        const hosts = Array.from({ length: more + 1 }, (_, index) => `host${pad(first + index)}`);
        expect(expandHostList(`host[${pad(first)}-${pad(first + more)}]`)).toEqual(hosts);
      }),
    );
  });
});
