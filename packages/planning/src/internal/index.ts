export { wholeMemory, withDeviceOfProfile } from '../plan/plan-run.js';
