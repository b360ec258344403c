import { Parameter, type ParameterOptions, ParameterUnit } from '@mtl/autograd';
import { expect, it } from 'vitest';
import { groupByUnits } from './group-by-units.js';

const named = (name: string, placement: ParameterOptions['placement'] = {}): Parameter =>
  new Parameter({ name, globalShape: [2], initialization: { kind: 'zeros' }, placement });

it('groups parameters by units, tied ones and copies of other stages apart', () => {
  const [table, positions, copied, weight, norm] = [
    named('table'),
    named('positions'),
    named('copied', { stages: 'ends' }),
    named('weight'),
    named('norm'),
  ];
  const embedding = new ParameterUnit([table, positions, copied], { isRoot: true });
  const layer = new ParameterUnit([weight]);
  const head = new ParameterUnit([norm, table], { isRoot: true });
  const groups = groupByUnits([table, positions, copied, weight, norm], [embedding, layer, head]);
  expect(groups).toEqual([
    { parameters: [table], units: [embedding, head] },
    { parameters: [positions], units: [embedding] },
    { parameters: [copied], units: [embedding] },
    { parameters: [weight], units: [layer] },
    { parameters: [norm], units: [head] },
  ]);
});
