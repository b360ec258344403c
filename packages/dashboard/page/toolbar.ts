import type { Axis } from '../src/api-types.js';
import { element } from './element.js';
import type { Scale, State } from './state.js';

const axes: readonly (readonly [Axis, string])[] = [
  ['iteration', 'Step'],
  ['tokens', 'Tokens'],
  ['seconds', 'Time'],
];

const scales: readonly (readonly [Scale, string])[] = [
  ['typical', 'Typical'],
  ['all', 'All'],
  ['log', 'Log'],
];

/** Adds the controls that apply to all charts: axes, smoothing, marks and zoom. */
export function addToolbar(parent: HTMLElement, state: State): void {
  const reset = element(
    'button',
    {
      class: 'reset',
      attributes: { type: 'button' },
      on: { click: () => state.update({ range: undefined }) },
    },
    'Reset zoom',
  );
  const showReset = (): void => {
    reset.disabled = state.view.range === undefined;
  };
  state.onChange(showReset);
  showReset();
  const { axis, scale, showsMarks, showsReported } = state.view;
  parent.append(
    element(
      'div',
      { class: 'toolbar', attributes: { role: 'toolbar', 'aria-label': 'Curves' } },
      // a new axis resets the zoom, because ranges of the old axis are meaningless for it
      segments({ name: 'axis', title: 'Horizontal axis', choices: axes, chosen: axis }, (chosen) =>
        state.update({ axis: chosen, range: undefined }),
      ),
      segments({ name: 'scale', title: 'Vertical scale', choices: scales, chosen: scale }, (chosen) =>
        state.update({ scale: chosen }),
      ),
      smoothingSlider(state),
      checkBox('Events', showsMarks, (isOn) => state.update({ showsMarks: isOn })),
      checkBox('Reported spikes', showsReported, (isOn) => state.update({ showsReported: isOn })),
      reset,
    ),
  );
}

interface Segments<Choice extends string> {
  readonly name: string;
  readonly title: string;
  readonly choices: readonly (readonly [Choice, string])[];
  readonly chosen: Choice;
}

function segments<Choice extends string>(
  { name, title, choices, chosen }: Segments<Choice>,
  onChoice: (choice: Choice) => void,
): HTMLElement {
  const labels = choices.map(([value, text]) => {
    const input = element('input', {
      attributes: { type: 'radio', name, value },
      on: { change: () => onChoice(value) },
    });
    input.checked = value === chosen;
    return element('label', {}, input, element('span', {}, text));
  });
  const legend = element('legend', { class: 'visually-hidden' }, title);
  return element('fieldset', { class: 'segments', attributes: { title } }, legend, ...labels);
}

function checkBox(text: string, isOn: boolean, onChange: (isOn: boolean) => void): HTMLElement {
  const input = element('input', {
    attributes: { type: 'checkbox' },
    on: { change: () => onChange(input.checked) },
  });
  input.checked = isOn;
  return element('label', { class: 'check' }, input, text);
}

function smoothingSlider(state: State): HTMLElement {
  const value = element('output');
  const input = element('input', {
    attributes: {
      type: 'range',
      min: 0,
      max: 100,
      value: computePlace(state.view.smoothing),
      'aria-label': 'Smoothing',
    },
    on: {
      input: () => {
        const smoothing = computeWeight(Number(input.value));
        showWeight(smoothing);
        state.update({ smoothing });
      },
    },
  });
  const showWeight = (weight: number): void => {
    value.textContent = weight === 0 ? 'off' : weight.toFixed(3).replace(/0$/, '');
  };
  showWeight(state.view.smoothing);
  return element('label', { class: 'slider' }, element('span', {}, 'Smoothing'), input, value);
}

/**
 * The number of slider steps in which `1 - weight` decreases by a factor of ten, so that weights close to 1
 * can be set precisely.
 */
const stepsToTenth = 33.4;

/** Returns the weight of earlier values for a position of the slider. */
const computeWeight = (place: number): number => (place === 0 ? 0 : 1 - 10 ** (-place / stepsToTenth));
const computePlace = (weight: number): number => Math.round(-stepsToTenth * Math.log10(1 - weight));
