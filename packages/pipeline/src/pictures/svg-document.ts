import type { Drawing } from './draw-timeline.js';
import { escapeXml } from './escape-xml.js';

/** Drawings one below the other as a file. */
export function svgDocument(drawings: readonly Drawing[]): string {
  const width = Math.max(...drawings.map((drawing) => drawing.width));
  const height = drawings.reduce((sum, drawing) => sum + drawing.height, 0);
  let y = 0;
  const groups = drawings.map((drawing) => {
    const group = `<g transform="translate(0 ${y})">\n${drawing.content}\n</g>`;
    y += drawing.height;
    return group;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" font-family="Helvetica, Arial, sans-serif">`,
    `<title>${escapeXml(drawings.map(({ title }) => title).join('; '))}</title>`,
    `<desc>${escapeXml(drawings.map(({ caption }) => caption).join('; '))}</desc>`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    ...(groups.length === 1 ? [drawings[0]!.content] : groups),
    '</svg>\n',
  ].join('\n');
}
