export { median } from '../measured/median.js';
