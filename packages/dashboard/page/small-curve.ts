import { element } from './element.js';

export interface SmallCurveContent {
  readonly title: string;
  readonly unit: string;
  readonly y: readonly (number | null)[];
  readonly format: (value: number | null | undefined) => string;
}

/** Returns a small curve without axes, with its last, smallest and largest value. */
export function smallCurve({ title, unit, y, format }: SmallCurveContent): HTMLElement {
  const known = y.filter((value) => value !== null);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const range = known.length === 0 ? '' : `${format(least)} to ${format(most)}`;
  return element(
    'figure',
    { class: 'small-curve' },
    element('figcaption', {}, element('h4', {}, title), element('strong', {}, format(y.at(-1)))),
    drawCurve(y, { least, most }),
    element('p', { class: 'unit' }, range),
    element('p', { class: 'unit' }, unit),
  );
}

/** Returns the lines of the curve, which are interrupted at missing values. */
function drawCurve(
  y: readonly (number | null)[],
  { least, most }: { readonly least: number; readonly most: number },
): SVGElement {
  const drawing = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  drawing.setAttribute('viewBox', '0 0 100 30');
  drawing.setAttribute('preserveAspectRatio', 'none');
  drawing.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  let isOpen = false;
  const parts = y.map((value, at) => {
    if (value === null) {
      isOpen = false;
      return '';
    }
    const command = isOpen ? 'L' : 'M';
    isOpen = true;
    const height = most === least ? 15 : 28 - (26 * (value - least)) / (most - least);
    return `${command}${((100 * at) / Math.max(1, y.length - 1)).toFixed(2)} ${height.toFixed(2)}`;
  });
  path.setAttribute('d', parts.join(''));
  path.setAttribute('vector-effect', 'non-scaling-stroke');
  drawing.append(path);
  return drawing;
}
