import { element } from './element.js';

/** The content of a heat map: loads relative to an even load. */
export interface HeatMapContent {
  readonly title: string;
  /** The meaning of rows and columns. */
  readonly unit: string;
  /** A description for users who cannot see the picture. */
  readonly label: string;
  /** The loads, by row and then by column. */
  readonly values: readonly (readonly number[])[];
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  /** True if columns are consecutive in time. They are then drawn without gaps. */
  readonly isOverTime: boolean;
  /** The index of the marked row; undefined for none. */
  readonly marked?: number | undefined;
  /** Returns the text that describes a cell while the pointer is on it. */
  readonly describeCell: (row: number, column: number) => string;
}

const left = 34;
const bottom = 20;
/** The smallest and the largest height of a row, and the intended height of all rows together, in pixels. */
const [leastRow, mostRow, wanted] = [2, 48, 256];
const distance = { row: 13, column: 44 };

type Colour = readonly [red: number, green: number, blue: number];

/**
 * The range of colours, in octaves. The colour depends on the logarithm to base 2 of a load, and reaches its
 * extremes at a quarter and at four times the load of an even distribution.
 */
const octaves = 2;

/** A picture of the loads of experts: cold colours for less than an even load, warm colours for more. */
export class HeatMap {
  readonly element = element('figure', { class: 'heat-map' });
  readonly #caption = element('figcaption');
  readonly #canvas: HTMLCanvasElement;
  readonly #unit = element('span', { class: 'unit' });
  readonly #extra: HTMLElement | undefined;
  #content: HeatMapContent | undefined;
  /** The cell at the pointer. */
  #pointed: Cell | undefined;
  #drawnWidth = 0;

  /** `extra` has the elements after the title. `onRow` is called with the row that the user clicks. */
  constructor({
    extra,
    onRow,
  }: {
    readonly extra?: HTMLElement;
    readonly onRow?: (row: number) => void;
  } = {}) {
    this.#canvas = element('canvas', {
      class: onRow === undefined ? '' : 'clickable',
      attributes: { role: 'img' },
      on: {
        pointermove: (event) => this.#point(event as PointerEvent),
        pointerleave: () => this.#describe(undefined),
        click: (event) => {
          const cell = this.#cellAt(event as MouseEvent);
          if (cell !== undefined) onRow?.(cell.row);
        },
      },
    });
    this.#extra = extra;
    this.element.append(this.#caption, this.#canvas);
    // also draws when the canvas is added to the page; only the width is compared, because drawing changes
    // the height
    new ResizeObserver(() => {
      if (this.element.clientWidth !== this.#drawnWidth) requestAnimationFrame(() => this.#draw());
    }).observe(this.element);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
  }

  show(content: HeatMapContent): void {
    this.#content = content;
    this.#canvas.setAttribute('aria-label', content.label);
    this.#caption.replaceChildren(
      element('h4', {}, content.title),
      ...(this.#extra === undefined ? [] : [this.#extra]),
      this.#unit,
    );
    this.#describe(this.#pointed);
    this.#draw();
  }

  /** The size of a cell in CSS pixels; undefined before the canvas is in the page. */
  #sizes(): { readonly width: number; readonly height: number } | undefined {
    const width = this.element.clientWidth - left;
    if (this.#content === undefined || width <= 0) return undefined;
    const { rows, columns } = this.#content;
    const height = Math.min(mostRow, Math.max(leastRow, Math.floor(wanted / rows.length)));
    return { width: width / columns.length, height };
  }

  #cellAt({ offsetX, offsetY }: MouseEvent): Cell | undefined {
    const sizes = this.#sizes();
    if (sizes === undefined) return undefined;
    const [row, column] = [Math.floor(offsetY / sizes.height), Math.floor((offsetX - left) / sizes.width)];
    const { rows, columns } = this.#content!;
    return rows[row] === undefined || columns[column] === undefined ? undefined : { row, column };
  }

  #point(event: PointerEvent): void {
    this.#describe(this.#cellAt(event));
  }

  /** Shows the text about a cell; if `cell` is undefined, the description of the picture. */
  #describe(cell: Cell | undefined): void {
    this.#pointed = cell;
    if (this.#content === undefined) return;
    const { unit, describeCell, values } = this.#content;
    const isThere = cell !== undefined && values[cell.row]?.[cell.column] !== undefined;
    this.#unit.textContent = isThere ? describeCell(cell.row, cell.column) : unit;
  }

  #draw(): void {
    const sizes = this.#sizes();
    const context = this.#canvas.getContext('2d');
    if (sizes === undefined || context === null) return;
    const [width, height] = [this.element.clientWidth, this.#content!.rows.length * sizes.height + bottom];
    this.#drawnWidth = width;
    this.#canvas.width = Math.round(width * devicePixelRatio);
    this.#canvas.height = Math.round(height * devicePixelRatio);
    context.scale(devicePixelRatio, devicePixelRatio);
    const colours = new HeatColours();
    this.#drawCells(context, { sizes, colours });
    const { fontFamily } = getComputedStyle(this.element);
    context.font = `11px ${fontFamily}`;
    context.textBaseline = 'middle';
    this.#drawRowNames(context, { sizes, colours });
    this.#drawColumnNames(context, { sizes, colours });
  }

  #drawCells(context: CanvasRenderingContext2D, { sizes, colours }: Drawing): void {
    const { values, isOverTime } = this.#content!;
    const gap = { x: isOverTime ? 0 : chooseGap(sizes.width), y: chooseGap(sizes.height) };
    for (const [row, ofRow] of values.entries()) {
      for (const [column, value] of ofRow.entries()) {
        // positions are rounded to whole pixels, because blurred edges would look like lines between the
        // cells
        const [from, to] = [column, column + 1].map((at) => Math.round(left + at * sizes.width));
        context.fillStyle = colours.of(value);
        context.fillRect(from!, row * sizes.height, to! - from! - gap.x, sizes.height - gap.y);
      }
    }
  }

  #drawRowNames(context: CanvasRenderingContext2D, { sizes, colours }: Drawing): void {
    const { rows, marked } = this.#content!;
    const every = Math.ceil(distance.row / sizes.height);
    context.textAlign = 'right';
    for (const [row, text] of rows.entries()) {
      const isClose = marked !== undefined && Math.abs(row - marked) < every;
      if (row !== marked && (row % every !== 0 || isClose)) continue;
      context.fillStyle = colours.property(row === marked ? '--text' : '--muted');
      context.fillText(text, left - 8, Math.max(6, (row + 0.5) * sizes.height));
    }
    if (marked === undefined) return;
    context.fillStyle = colours.property('--text');
    context.fillRect(left - 4, marked * sizes.height, 2, sizes.height - chooseGap(sizes.height));
  }

  #drawColumnNames(context: CanvasRenderingContext2D, { sizes, colours }: Drawing): void {
    const { rows, columns } = this.#content!;
    const every = Math.ceil((columns.length <= 32 ? 22 : distance.column) / sizes.width);
    context.textAlign = 'center';
    context.fillStyle = colours.property('--muted');
    for (const [column, text] of columns.entries()) {
      const x = left + (column + 0.5) * sizes.width;
      const isBeyond = x + context.measureText(text).width / 2 > this.element.clientWidth;
      if (column % every === 0 && !isBeyond) context.fillText(text, x, rows.length * sizes.height + 13);
    }
  }
}

interface Cell {
  readonly row: number;
  readonly column: number;
}

interface Drawing {
  /** The width and height of a cell in CSS pixels. */
  readonly sizes: { readonly width: number; readonly height: number };
  readonly colours: HeatColours;
}

/** Returns the gap between cells in pixels; small cells have none. */
const chooseGap = (size: number): number => (size >= 7 ? 1 : 0);

/** The page's current colours, which depend on dark mode. */
class HeatColours {
  readonly #style = getComputedStyle(document.documentElement);
  readonly #less = rgb(this.property('--heat-less'));
  readonly #even = rgb(this.property('--heat-even'));
  readonly #more = rgb(this.property('--heat-more'));
  readonly #none = this.property('--heat-none');

  property(name: string): string {
    return this.#style.getPropertyValue(name).trim();
  }

  /** Returns the colour for a load; a load of 0 has a separate colour. */
  of(load: number): string {
    if (load === 0) return this.#none;
    const position = Math.max(-1, Math.min(1, Math.log2(load) / octaves));
    const end = position < 0 ? this.#less : this.#more;
    const mixed = this.#even.map((from, at) => Math.round(from + Math.abs(position) * (end[at]! - from)));
    return `rgb(${mixed.join(' ')})`;
  }
}

/** Returns the three components of a colour `#rrggbb`. */
const rgb = (colour: string): Colour =>
  [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16)) as unknown as Colour;
