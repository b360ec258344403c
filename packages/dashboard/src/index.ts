export { type Dashboard, type OpenDashboardOptions, openDashboard } from './open-dashboard.js';
