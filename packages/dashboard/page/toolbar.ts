import type { Axis } from '../src/api-types.js';
import { element } from './element.js';
import type { State } from './state.js';

const axes: readonly (readonly [Axis, string])[] = [
  ['iteration', 'Step'],
  ['tokens', 'Tokens'],
  ['seconds', 'Time'],
];

/** What all charts have in common: their horizontal axis, smoothing, scale and zoom. */
export function addToolbar(parent: HTMLElement, state: State): void {
  const chosen = axes.map(([axis, name]) => {
    const input = element('input', {
      attributes: { type: 'radio', name: 'axis', value: axis },
      // another axis has other numbers, so that a range of this one means nothing there
      on: { change: () => state.update({ axis, range: undefined }) },
    });
    input.checked = axis === state.axis;
    return element('label', {}, input, element('span', {}, name));
  });
  const value = element('output', {}, 'off');
  const smoothing = element('input', {
    attributes: { type: 'range', min: 0, max: 100, value: 0, 'aria-label': 'Smoothing' },
    on: {
      input: () => {
        const weight = weightOf(Number(smoothing.value));
        value.textContent = weight === 0 ? 'off' : weight.toFixed(3).replace(/0$/, '');
        state.update({ smoothing: weight });
      },
    },
  });
  const logarithmic = element('input', {
    attributes: { type: 'checkbox' },
    on: { change: () => state.update({ isLogarithmic: logarithmic.checked }) },
  });
  const marks = element('input', {
    attributes: { type: 'checkbox', checked: true },
    on: { change: () => state.update({ showsMarks: marks.checked }) },
  });
  const reported = element('input', {
    attributes: { type: 'checkbox' },
    on: { change: () => state.update({ showsReported: reported.checked }) },
  });
  const reset = element(
    'button',
    {
      class: 'reset',
      attributes: { type: 'button' },
      on: { click: () => state.update({ range: undefined }) },
    },
    'Reset zoom',
  );
  state.onChange(() => {
    reset.disabled = state.range === undefined;
  });
  reset.disabled = true;
  parent.append(
    element(
      'div',
      { class: 'toolbar', attributes: { role: 'toolbar', 'aria-label': 'Curves' } },
      element(
        'fieldset',
        { class: 'segments' },
        element('legend', { class: 'visually-hidden' }, 'Horizontal axis'),
        ...chosen,
      ),
      element('label', { class: 'slider' }, element('span', {}, 'Smoothing'), smoothing, value),
      element('label', { class: 'check' }, logarithmic, 'Log scale'),
      element('label', { class: 'check' }, marks, 'Events'),
      element('label', { class: 'check' }, reported, 'Reported spikes'),
      reset,
    ),
  );
}

/** The weight of the past for a place of the slider: close to 1 in fine steps. */
function weightOf(place: number): number {
  return place === 0 ? 0 : 1 - 10 ** (-place / 33.4);
}
